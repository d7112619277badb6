// bench_handoff [WAITERS] [MODE]: from the reply to a release to the reply to the next grant, with that many
// waiters in line, against one committed update (a renewal by the new holder) on the same server. The
// database is $DBLOCK_DB, migrated, or a file:
//
//   cmake --build build/release --target bench_handoff
//   DBLOCK=build/release/src/dblock tests/with-mariadb.sh build/release/tests/bench/bench_handoff 100
//
// With MODE each lease is held for a second, so that the next waiter knows that it is first, and for a random
// part of the time between two of its looks: exclusive; shared: the first thread reads, and its handoffs
// count, to the others, which write, and from them; slots: of which there is one; keys: two.
//
// Prints one line, medians with quartiles in microseconds; run.sh reads it by the places of its words:
//   update MEDIAN Q1 Q3 handoff MEDIAN Q1 Q3 p99 P99 of COUNT
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lease/acquire.hpp"
#include "store/open.hpp"

namespace {

using namespace dblock;
using namespace std::chrono_literals;

struct Grant {
  lease::Mode mode;
  BootTime granted;
  BootTime updated;
  BootTime released;
};

struct Times {
  std::mutex mutex;
  std::vector<Grant> grants;
  std::atomic<int> running;  // threads
  std::atomic<int> in_line = 0;
};

double micros(Nanos time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double at(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

std::unique_ptr<lease::LeaseStore> open(Clock& clock) {
  store::SettingsSources sources;
  sources.url = std::getenv("DBLOCK_DB") != nullptr ? std::getenv("DBLOCK_DB") : "";
  const auto resolved = store::resolve_settings(sources);
  if (!resolved) {
    std::fprintf(stderr, "bench_handoff: %s\n", resolved.error().message.c_str());
    std::exit(78);
  }
  return store::open_store(resolved->settings, {}, clock);
}

lease::LeaseRequest make_request(const std::string& mode, int name, int round) {
  const std::string key = "handoff " + std::to_string(::getpid());
  lease::LeaseRequest request{.key = *lease::Key::parse(key),
                              .owner = {std::to_string(name) + "-" + std::to_string(round)},
                              .kind = lease::Kind::run,
                              .terms = {60s, 1s, 10s},
                              .holder = {"bench", 1, "", "", ""}};
  if (mode == "slots") request.sharing.mode = lease::Mode::slot;
  if (mode == "shared" && name == 0) request.sharing.mode = lease::Mode::shared;
  if (mode == "keys") request.further_keys = {*lease::Key::parse(key + " too")};
  return request;
}

// Takes the lock and releases it again and again, so that there are as many waiters as threads, less one: but
// in the first round the threads still come, and in the last they go.
void work(Times& times, const std::string& mode, int name, int rounds) {
  SystemClock clock;
  const WakeEvent never;
  std::minstd_rand random(static_cast<unsigned>(name));
  std::uniform_int_distribution<int> held_for(mode.empty() ? 0 : 1000, mode.empty() ? 0 : 1200);
  for (int round = 0; round < rounds; ++round) {
    const auto store = open(clock);
    const auto request = make_request(mode, name, round);
    bool waits = false;
    lease::AcquireObserver observer;
    observer.on_wait = [&](const lease::LockStatus&) { times.in_line += std::exchange(waits, true) ? 0 : 1; };
    const auto outcome = lease::acquire(*store, clock, request, {std::nullopt}, observer, never);
    const BootTime granted = clock.now();
    if (waits) --times.in_line;
    store->hold(lease::LeaseStore::RenewedBy::this_store);
    if (!outcome || !std::holds_alternative<lease::Lease>(*outcome)) std::exit(70);
    const lease::LeaseRef ref = lease::ref_to(request);
    const auto renewed = store->renew(ref, lease::Actor::holder, std::nullopt);
    const BootTime updated = clock.now();
    while (times.in_line < times.running - 1) std::this_thread::sleep_for(1ms);
    // Those who have come last are asleep.
    std::this_thread::sleep_for(std::chrono::milliseconds(2 + held_for(random)));
    const auto freed = store->release(ref, lease::Actor::holder, {});
    const BootTime released = clock.now();
    if (!renewed || !freed) std::exit(70);
    store->wake_up()->leave();
    const std::lock_guard lock(times.mutex);
    times.grants.push_back({request.sharing.mode, granted, updated, released});
  }
  --times.running;
}

void print(Times& times, const std::string& mode, std::size_t in_a_round) {
  std::ranges::sort(times.grants, {}, &Grant::granted);
  std::vector<double> updates;
  std::vector<double> handoffs;
  for (std::size_t i = in_a_round; i + in_a_round < times.grants.size(); ++i) {
    const Grant& next = times.grants[i];
    const Grant& last = times.grants[i - 1];
    if (mode == "shared" && next.mode == last.mode) continue;
    updates.push_back(micros(next.updated - next.granted));
    handoffs.push_back(micros(next.granted - last.released));
  }
  std::printf("update %.0f %.0f %.0f handoff %.0f %.0f %.0f p99 %.0f of %zu\n", at(updates, 0.5),
              at(updates, 0.25), at(updates, 0.75), at(handoffs, 0.5), at(handoffs, 0.25), at(handoffs, 0.75),
              at(handoffs, 0.99), handoffs.size());
}

}  // namespace

int main(int argc, char** argv) {
  const int waiters = argc > 1 ? std::atoi(argv[1]) : 10;
  const std::string mode = argc > 2 ? argv[2] : "";
  const int threads_in_all = waiters + 1;
  const int rounds = 2 + ((mode.empty() ? 300 : 100) + waiters) / threads_in_all;
  Times times{.running = threads_in_all};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < threads_in_all; ++i)
      threads.emplace_back([&times, &mode, i, rounds] { work(times, mode, i, rounds); });
  }
  print(times, mode, static_cast<std::size_t>(threads_in_all));
  return 0;
}
