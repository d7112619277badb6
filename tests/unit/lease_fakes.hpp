// A clock that jumps to whatever is waited for, and a store whose answers the test writes. No threads, no
// time.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>
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

// Each verb pops its next scripted answer; the last one repeats. Calls are recorded in order.
class FakeStore final : public lease::LeaseStore {
 public:
  using Acquire = std::function<Result<lease::Answer>(const lease::LeaseRequest&)>;
  using Peek = std::function<Result<std::optional<lease::LockStatus>>()>;
  using Renew = std::function<Result<lease::RenewOutcome>()>;
  using Release = std::function<Result<lease::ReleaseOutcome>()>;

  std::deque<Acquire> acquires;
  std::deque<Peek> peeks;
  std::deque<Renew> renews;
  std::deque<Release> releases;
  std::deque<std::function<lease::Lease(const lease::LeaseRequest&)>> nests;  // none: nothing to nest in
  lease::LeaseRef released{*lease::Key::parse("none"), {}, {}};               // by the last release
  int settled = 0;
  std::deque<Result<void>> connects;
  std::vector<std::string> calls;

  Result<void> connect() override {
    if (connects.empty()) return {};
    auto answer = connects.front();
    if (connects.size() > 1) connects.pop_front();
    if (!answer) calls.emplace_back("connect failed");
    return answer;
  }
  Result<lease::Answer> try_acquire(const lease::LeaseRequest& request) override {
    calls.emplace_back("acquire");
    return next(acquires)(request);
  }
  Result<std::optional<lease::LockStatus>> peek(const lease::Key&) override {
    calls.emplace_back("peek");
    return next(peeks)();
  }
  // As a peek, judged as an exclusive request of one key has to.
  Result<lease::Answer> look(const lease::LeaseRequest& request) override {
    return judged(request, peek(request.key));
  }
  Result<lease::Answer> look_with_position(const lease::LeaseRequest& request) override {
    calls.emplace_back("peek with position");
    return judged(request, next(peeks)());
  }
  static Result<lease::Answer> judged(const lease::LeaseRequest& request,
                                      Result<std::optional<lease::LockStatus>> seen) {
    if (!seen) return std::unexpected(seen.error());
    if (!*seen) return lease::Free{};
    const auto& row = **seen;
    const auto& once_per = request.promises.once_per;
    if (row.owner == request.owner.text) return found(request, row, {});
    if (once_per && row.done_within(*once_per)) return lease::Done{row};
    if (row.grantable_at() > row.server_time) return lease::Held{row};
    return lease::Free{0, row};
  }
  Result<lease::RenewOutcome> renew(const lease::LeaseRef&, lease::Actor, std::optional<Micros>) override {
    calls.emplace_back("renew");
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
  Result<lease::ForceOutcome> revoke(const lease::Key&, lease::Token, const std::string&) override {
    return fail(Errc::internal, "not scripted");
  }
  Result<lease::ForceOutcome> free_now(const lease::Key&, lease::Token) override {
    return fail(Errc::internal, "not scripted");
  }
  Result<lease::Paused> pause(const lease::PauseRequest&) override { return lease::Paused{}; }
  Result<lease::Resumed> resume(const lease::PauseScope&) override { return lease::Resumed{}; }
  Result<lease::Listing> list(const lease::Selection&) override {
    return fail(Errc::internal, "not scripted");
  }
  Result<lease::ReapReport> reap(const lease::ReapOptions&) override {
    return fail(Errc::internal, "not scripted");
  }
  void settle() noexcept override { ++settled; }
  void disconnect() noexcept override {}
  void interrupt() noexcept override {}
  lease::Turnstile* turnstile() noexcept override { return turnstile_used; }

  lease::Turnstile* turnstile_used = nullptr;

 private:
  template <typename F>
  static F next(std::deque<F>& script) {
    if (script.empty()) throw std::logic_error("the test wrote no answer for this call");
    F answer = script.front();
    if (script.size() > 1) script.pop_front();
    return answer;
  }
};

// A turnstile whose turns the test writes. An await() that answers not_yet takes the fake clock to its end.
// Calls are recorded among the store's.
class FakeTurnstile final : public lease::Turnstile {
 public:
  using Await = std::function<lease::Turn(BootTime until)>;

  FakeTurnstile(FakeClock& clock, FakeStore& store) : clock_(clock), store_(store) {}

  lease::Turn on_enter = lease::Turn::not_yet;
  std::deque<Await> awaits;  // the last one repeats; none: not_yet
  std::vector<Nanos> lengths;
  bool has_position = false;
  bool turn_lost = false;
  lease::LookSchedule looks_after{};
  std::vector<std::string> calls_before_approach;  // as of the last one

  void approach(const lease::Key&, const lease::Holder&) override { calls_before_approach = store_.calls; }
  [[nodiscard]] bool lost_turn() const override { return turn_lost; }
  [[nodiscard]] lease::LookSchedule look_schedule() const override { return looks_after; }

  lease::Turn enter(const lease::Key&) override {
    store_.calls.emplace_back("enter");
    has_position = on_enter != lease::Turn::none;
    turn_lost = false;
    return on_enter;
  }
  lease::Turn await(BootTime until, const WakeEvent& cancel) override {
    store_.calls.emplace_back("await");
    lengths.push_back(until - clock_.now());
    const Await answer = awaits.empty() ? Await{} : awaits.front();
    if (awaits.size() > 1) awaits.pop_front();
    const lease::Turn turn = answer ? answer(until) : lease::Turn::not_yet;
    if (turn != lease::Turn::not_yet) return turn;
    return clock_.wait_until(until, cancel) ? lease::Turn::cancelled : lease::Turn::not_yet;
  }
  void leave() noexcept override {
    if (std::exchange(has_position, false) && on_leave) on_leave();
  }

  std::function<void()> on_leave;  // called when a position is given up

 private:
  FakeClock& clock_;
  FakeStore& store_;
};

// Grants what is asked for, with token 8, from now on.
inline FakeStore::Acquire grants(const FakeClock& clock) {
  return [&clock](const lease::LeaseRequest& request) -> Result<lease::Answer> {
    return lease::Granted{
        {request.key, {}, request.owner, lease::Token{8}, request.terms, clock.now(), false}};
  };
}

}  // namespace dblock::test
