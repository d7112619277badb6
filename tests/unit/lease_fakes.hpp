// A clock that jumps to whatever is waited for, and a store whose answers the test writes. No threads, no
// time.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lease/store.hpp"

namespace dblock::test {

class FakeClock final : public Clock {
 public:
  [[nodiscard]] BootTime now() const override { return now_; }
  bool wait_until(BootTime when, const WakeEvent& wake) override {
    if (wake.raised()) return true;
    if (when > now_) now_ = when;
    if (on_wait) on_wait();
    return wake.raised();
  }
  void tick(Nanos length) { now_ += length; }

  std::function<void()> on_wait;  // called after each jump

 private:
  BootTime now_{std::chrono::hours(1)};
};

// A wake-up whose sleeps the test writes. A sleep that is not written takes the fake clock to its `until` and
// goes on. Calls are recorded among the store's.
class FakeWakeUp final : public lease::WakeUp {
 public:
  struct Sleep {
    std::string behind;
    std::size_t before;
    Nanos at_most;
    BootTime began;
  };
  using Script = std::function<lease::Slept()>;

  FakeWakeUp(FakeClock& clock, std::vector<std::string>& calls) : clock_(clock), calls_(calls) {}

  std::deque<Script> sleeps;  // the last one repeats
  std::vector<Sleep> slept;
  std::string own;  // the request that is there; empty: none is
  bool is_crowded = false;
  int asked_if_crowded = 0;
  bool is_asleep = false;
  bool is_busy_asleep = true;  // as on a server; an embedded store's sleep keeps nothing busy
  lease::LookSchedule looks_after{};

  void announce(const lease::OwnerId& request) override {
    if (own != request.text) calls_.emplace_back("announce");
    own = request.text;
  }
  lease::Slept sleep_behind(const lease::OwnerId& ahead, std::size_t before, BootTime until,
                            const WakeEvent& cancel) override {
    calls_.emplace_back("sleep");
    slept.push_back({ahead.text, before, until - clock_.now(), clock_.now()});
    const Script script = sleeps.empty() ? Script{} : sleeps.front();
    if (sleeps.size() > 1) sleeps.pop_front();
    lease::Slept end = lease::Slept::not_yet;
    if (script) end = script();
    if (end == lease::Slept::not_yet && clock_.wait_until(until, cancel)) end = lease::Slept::cancelled;
    is_asleep = is_busy_asleep && end == lease::Slept::not_yet;
    return end;
  }
  [[nodiscard]] bool asleep() const override { return is_asleep; }
  void stay_awake() noexcept override { calls_.emplace_back("stay awake"); }
  [[nodiscard]] bool crowded() override {
    ++asked_if_crowded;
    return is_crowded;
  }
  [[nodiscard]] lease::LookSchedule look_schedule() const override { return looks_after; }
  void leave() noexcept override {
    if (!own.empty()) calls_.emplace_back("leave");
    own.clear();
    is_asleep = false;
  }

 private:
  FakeClock& clock_;
  std::vector<std::string>& calls_;
};

// A place in the line of lock "k".
inline lease::Place place_of(const std::string& owner, Micros since) {
  lease::Place place{.key = "k", .owner = {owner}, .waiter = {}};
  place.waiter.since = lease::ServerTime{since};
  return place;
}

// Those of a request that has an arrival, one in each of its lines.
inline std::vector<lease::Place> own_places(const lease::LeaseRequest& request) {
  std::vector<lease::Place> places;
  for (const auto& key : lease::locks_of(request)) {
    places.push_back(place_of(request.owner.text, request.arrival->since_epoch));
    places.back().key = key.bytes();
  }
  return places;
}

// Each verb pops its next scripted answer; the last one repeats. Calls are recorded in order.
class FakeStore final : public lease::LeaseStore {
 public:
  using Acquire = std::function<Result<lease::Answer>(const lease::LeaseRequest&)>;
  using Peek = std::function<Result<std::optional<lease::LockStatus>>()>;
  using SeeLine = std::function<Result<std::vector<lease::Place>>(const lease::LeaseRequest&)>;
  using Renew = std::function<Result<lease::RenewOutcome>()>;
  using Release = std::function<Result<lease::ReleaseOutcome>()>;
  using Revoke = std::function<Result<lease::ForceOutcome>(std::optional<lease::ServerTime> arrival)>;
  struct Stand {
    std::optional<lease::ServerTime> arrival;
    Micros length;
    bool marks;
  };

  std::deque<Acquire> acquires;
  std::deque<Peek> peeks;
  std::deque<Renew> renews;
  std::vector<lease::JobNews> told;  // what renewals were to store
  std::deque<Release> releases;
  std::deque<Revoke> revokes;
  std::deque<std::function<lease::Lease(const lease::LeaseRequest&)>> nests;  // none: nothing to nest in
  std::deque<Result<lease::ServerTime>> arrivals;  // for requests without one; none: k_arrival
  std::vector<Stand> stands;
  std::function<void()> on_stand;            // before each of them
  std::optional<std::size_t> failing_stand;  // the index of this one
  Micros marked_for{0};       // what a look then finds in the lock's own row, unless the test writes it
  std::deque<SeeLine> lines;  // none: only the request itself waits
  lease::LeaseRef released{*lease::Key::parse("none"), {}, {}};  // by the last release
  int settled = 0;
  int rested = 0;
  std::deque<Result<void>> connects;
  std::vector<std::string> calls;
  FakeWakeUp* wake_up_used = nullptr;

  static constexpr lease::ServerTime k_arrival{std::chrono::seconds(1000)};

  Result<void> connect() override {
    if (connects.empty()) return {};
    auto answer = connects.front();
    if (connects.size() > 1) connects.pop_front();
    if (!answer) calls.emplace_back("connect failed");
    return answer;
  }
  Result<lease::Answer> try_acquire(const lease::LeaseRequest& request) override {
    calls.emplace_back("acquire");
    if (wake_up_used != nullptr) wake_up_used->is_asleep = false;  // as the store needs its connection
    auto answer = next(acquires)(request);
    if (answer && std::holds_alternative<lease::Held>(*answer)) {
      auto& row = std::get<lease::Held>(*answer).status;
      row = marked(std::move(row));
    }
    return answer;
  }
  Result<std::optional<lease::LockStatus>> peek() {
    calls.emplace_back("peek");
    return next(peeks)();
  }
  // As a peek, judged as an exclusive request of one key has to.
  Result<lease::Answer> look(const lease::LeaseRequest& request) override {
    const auto seen = peek();
    if (!seen) return std::unexpected(seen.error());
    if (!*seen) return lease::Free{};
    const auto row = marked(**seen);
    const auto& once_per = request.promises.once_per;
    if (row.owner == request.owner.text) return found(request, row, {});
    if (once_per && row.done_within(*once_per)) return lease::Done{row};
    if (row.grantable_at() > row.server_time) return lease::Held{row};
    return lease::Free{0, row};
  }
  Result<lease::ServerTime> stand_in_line(const lease::LeaseRequest& request, Micros length,
                                          bool marks) override {
    calls.emplace_back("stand");
    if (on_stand) on_stand();
    stands.push_back({request.arrival, length, marks});
    if (stands.size() - 1 == failing_stand) return fail(Errc::unreachable, "no room");
    if (marks) marked_for = length;
    if (request.arrival) return *request.arrival;
    return arrivals.empty() ? k_arrival : next(arrivals);
  }
  Result<std::vector<lease::Place>> see_line(const lease::LeaseRequest& request) override {
    calls.emplace_back("see");
    if (!lines.empty()) return next(lines)(request);
    return own_places(request);
  }
  void leave_line(const lease::LeaseRequest&) noexcept override { calls.emplace_back("leave line"); }
  Result<lease::RenewOutcome> renew(const lease::LeaseRef&, lease::Actor, std::optional<Micros>, Micros,
                                    const std::optional<lease::JobNews>& news) override {
    calls.emplace_back("renew");
    if (news) told.push_back(*news);
    return next(renews)();
  }
  Result<std::optional<lease::Lease>> nest(const lease::LeaseRequest& request) override {
    if (nests.empty()) return std::nullopt;
    calls.emplace_back("nest");
    return next(nests)(request);
  }
  Result<lease::ReleaseOutcome> release(const lease::LeaseRef& ref, lease::Actor, lease::RunEnd) override {
    calls.emplace_back("release");
    released = ref;
    return next(releases)();
  }
  Result<lease::ForceOutcome> revoke(const lease::Key&, lease::Token, const std::string&,
                                     std::optional<lease::ServerTime> arrival) override {
    calls.emplace_back("revoke");
    return next(revokes)(arrival);
  }
  void hold(RenewedBy /*by*/) noexcept override { ++settled; }
  void rest() noexcept override { ++rested; }
  void end() noexcept override {
    if (wake_up_used != nullptr) wake_up_used->leave();
  }
  void disconnect() noexcept override { calls.emplace_back("disconnect"); }
  void interrupt() noexcept override {}
  lease::WakeUp* wake_up() noexcept override { return wake_up_used; }

 private:
  static constexpr std::size_t k_endless = 100'000;

  [[nodiscard]] lease::LockStatus marked(lease::LockStatus row) const {
    if (row.slot == 0 && !row.line_until && marked_for > Micros{0})
      row.line_until = lease::ServerTime{row.server_time.since_epoch + marked_for};
    return row;
  }

  template <typename F>
  F next(std::deque<F>& script) const {
    if (calls.size() > k_endless) throw std::logic_error("what the test calls never ends");
    if (script.empty()) throw std::logic_error("the test wrote no answer for this call");
    F answer = script.front();
    if (script.size() > 1) script.pop_front();
    return answer;
  }
};

// Grants what is asked for, with token 8, from now on.
inline FakeStore::Acquire grants(const FakeClock& clock) {
  return [&clock](const lease::LeaseRequest& request) -> Result<lease::Answer> {
    return lease::Granted{
        {request.key, {}, request.owner, lease::Token{8}, request.terms, clock.now(), false}};
  };
}

}  // namespace dblock::test
