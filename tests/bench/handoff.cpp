// bench_handoff [WAITERS] [ROUNDS]: from the reply to a release to the reply to the next grant, with that
// many waiters in line, against one committed update on the same server. The database is $DBLOCK_DB,
// migrated:
//
//   DBLOCK=build/release/src/dblock tests/with-mariadb.sh build/release/tests/bench/bench_handoff 100
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lease/acquire.hpp"
#include "store/open.hpp"

namespace {

using namespace dblock;
using namespace std::chrono_literals;

struct Times {
  std::mutex mutex;
  std::vector<std::pair<BootTime, BootTime>> granted_and_released;
  std::vector<double> updates;
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

// Takes the lock and gives it back again and again, so that there always are as many waiters as threads, less
// one.
void work(Times& times, int name, int rounds) {
  SystemClock clock;
  const WakeEvent never;
  const auto key = *lease::Key::parse("handoff");
  for (int round = 0; round < rounds; ++round) {
    const auto store = open(clock);
    const lease::LeaseRequest request{.key = key,
                                      .owner = {std::to_string(name) + "-" + std::to_string(round)},
                                      .kind = lease::Kind::run,
                                      .terms = {60s, 1s, 10s},
                                      .holder = {"bench", 1, "", "", ""}};
    const auto outcome = lease::acquire(*store, clock, request, {std::nullopt}, {}, never);
    const BootTime granted = clock.now();
    if (!outcome || !std::holds_alternative<lease::Lease>(*outcome)) std::exit(70);
    const lease::LeaseRef ref{key, request.owner, std::nullopt};
    const auto renewed = store->renew(ref, lease::Actor::holder, std::nullopt);
    const BootTime updated = clock.now();
    std::this_thread::sleep_for(2ms);  // the last holder is back in line
    const auto freed = store->release(ref, lease::Actor::holder, {});
    const BootTime released = clock.now();
    if (!renewed || !freed) std::exit(70);
    store->turnstile()->leave();
    const std::lock_guard lock(times.mutex);
    times.granted_and_released.emplace_back(granted, released);
    times.updates.push_back(micros(updated - granted));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int waiters = argc > 1 ? std::atoi(argv[1]) : 10;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : std::max(3, 300 / (waiters + 1));
  Times times;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i <= waiters; ++i) threads.emplace_back([&times, i, rounds] { work(times, i, rounds); });
  }
  std::ranges::sort(times.granted_and_released);
  std::vector<double> handoffs;
  for (std::size_t i = 1; i < times.granted_and_released.size(); ++i)
    handoffs.push_back(
        micros(times.granted_and_released[i].first - times.granted_and_released[i - 1].second));
  const double update = at(times.updates, 0.5);
  std::printf("%d waiters: update %.0f us; handoff median %.0f us (%.1f x), p99 %.0f us (%.1f x)\n", waiters,
              update, at(handoffs, 0.5), at(handoffs, 0.5) / update, at(handoffs, 0.99),
              at(handoffs, 0.99) / update);
  return 0;
}
