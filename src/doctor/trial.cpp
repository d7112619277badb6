#include "doctor/trial.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "doctor/trial_steps.hpp"
#include "lease/owner_id.hpp"
#include "lease/session.hpp"

namespace dblock::doctor {
namespace {

using namespace std::chrono_literals;
using lease::Mode;

constexpr Nanos k_asleep = 500ms;  // a request that has been refused sleeps by then
constexpr Micros k_pause = 20s;

// With the statement that was refused, for who wants to know why this server does so.
std::string failure(const Error& error) {
  if (error.statement.empty()) return error.message;
  return error.message + " (statement " + std::string(error.statement) + ")";
}

std::string length(Nanos time) {
  return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(time).count()) + " ms";
}

class Trial {
 public:
  Trial(const OpenStore& open, lease::Holder holder, Micros patience)
      : open_(open),
        holder_(std::move(holder)),
        patience_(patience),
        book_(open_()),
        outer_(open_(), clock(), request(""), {patience}, trial_timing(), {}) {}

  std::vector<Finding> run();

 private:
  using Step = Result<std::string> (Trial::*)();  // what was found; empty: how long it took

  Result<std::string> take_outer();
  Result<std::string> refuse();
  Result<std::string> renew();
  Result<std::string> hand_over();
  Result<std::string> hold_together(const lease::Sharing& sharing, const lease::LeaseRequest& other,
                                    const std::string& what);
  Result<std::string> share();
  Result<std::string> use_slots();
  Result<std::string> take_several();
  Result<std::string> pause();
  Result<std::string> release_outer();

  static SystemClock& clock() {
    static SystemClock instance;
    return instance;
  }
  [[nodiscard]] lease::LeaseRequest request(const std::string& suffix, lease::Sharing sharing = {}) const {
    return trial_request(holder_, suffix, sharing);
  }
  Result<lease::Lease> grant_of(lease::Session& session);
  Result<void> end(lease::Session& session, const lease::Lease& lease);
  Result<void> expect_place(const lease::LeaseRequest& wanted, const WakeEvent& waits,
                            const WakeEvent& ended);

  const OpenStore& open_;
  const lease::Holder holder_;
  const Micros patience_;
  std::unique_ptr<lease::LockBook> book_;
  lease::Session outer_;  // its lock is held throughout, and keeps other trials out
  std::optional<lease::Lease> lease_;
};

// The answer of a session that has begun to take its lock.
Result<lease::Lease> Trial::grant_of(lease::Session& session) {
  if (!clock().wait_until(BootClock::now() + 2 * patience_, session.done())) {
    session.cancel_acquire();
    return fail(Errc::unreachable, "no answer within " + length(2 * patience_));
  }
  DBLOCK_TRY(const auto outcome, session.grant());
  if (const auto* lease = std::get_if<lease::Lease>(&outcome)) return *lease;
  return fail(Errc::held, "another holder has the lock");
}

Result<std::string> Trial::take_outer() {
  outer_.start_acquire();
  DBLOCK_TRY(lease_, grant_of(outer_));
  outer_.start_heartbeat(*lease_);
  return "";
}

Result<std::string> Trial::refuse() {
  DBLOCK_CHECK(expect_refusal(*book_, request(""), "a lock that is held"));
  return "";
}

Result<std::string> Trial::renew() {
  DBLOCK_TRY(const auto outcome, book_->renew(ref_to(*lease_), lease::Actor::holder, std::nullopt));
  if (std::holds_alternative<lease::Renewed>(outcome)) return "";
  return wrong("a lease that has not ended is not renewed");
}

Result<void> Trial::end(lease::Session& session, const lease::Lease& lease) {
  const auto result =
      session.release(ref_to(lease), lease::Actor::holder, {lease::RunOutcome::succeeded, 0}, {patience_});
  if (result == lease::ReleaseResult::released) return {};
  return wrong("the release of a lease that has not ended was not confirmed");
}

// Waits until the request, which a session makes, sleeps in the line of its lock. `waits` is raised when it
// begins to wait, and at its end.
Result<void> Trial::expect_place(const lease::LeaseRequest& wanted, const WakeEvent& waits,
                                 const WakeEvent& ended) {
  if (!clock().wait_until(BootClock::now() + patience_, waits) || ended.raised())
    return wrong("a request does not wait for a lock that is held");
  DBLOCK_TRY(const auto line, book_->see_line(wanted));
  if (std::ranges::none_of(line, [&](const auto& place) { return place.owner == wanted.owner; }))
    return wrong("a request that waits has no place in line");
  std::this_thread::sleep_for(k_asleep);
  return {};
}

Result<std::string> Trial::hand_over() {
  lease::Session first(open_(), clock(), request(" 1"), {patience_}, trial_timing(), {});
  first.start_acquire();
  DBLOCK_TRY(const auto held, grant_of(first));
  first.start_heartbeat(held);
  const auto wanted = request(" 1");
  // An abandoned thread may raise them later.
  const auto waiting = std::make_shared<WakeEvent>();
  const auto over = std::make_shared<WakeEvent>();
  lease::SessionEvents events;
  events.acquiring.on_wait = [waiting](const lease::LockStatus&) { waiting->raise(); };
  events.on_acquire_ended = [waiting, over] {
    over->raise();
    waiting->raise();
  };
  lease::Session second(open_(), clock(), wanted, {patience_}, trial_timing(), events);
  second.start_acquire();
  const auto waits = expect_place(wanted, *waiting, *over);
  const BootTime released = BootClock::now();
  const auto ended = end(first, held);
  const auto granted = grant_of(second);
  const std::string took = length(BootClock::now() - released);
  DBLOCK_CHECK(ended);
  if (!granted) return std::unexpected(granted.error());
  second.start_heartbeat(*granted);
  const auto given_back = end(second, *granted);
  for (const auto& step : {waits, given_back}) DBLOCK_CHECK(step);
  if (granted->token <= held.token) return wrong("the next holder's token is not greater");
  return took + " from the release to the next grant";
}

// Two holders at a time, and a request that must not come to them.
Result<std::string> Trial::hold_together(const lease::Sharing& sharing, const lease::LeaseRequest& other,
                                         const std::string& what) {
  DBLOCK_TRY(const auto one, take(*book_, request(" 1", sharing)));
  DBLOCK_TRY(const auto two, take(*book_, request(" 1", sharing)));
  DBLOCK_CHECK(expect_refusal(*book_, other, what));
  DBLOCK_CHECK(give_back(*book_, one));
  DBLOCK_CHECK(give_back(*book_, two));
  return "";
}

Result<std::string> Trial::share() {
  return hold_together({Mode::shared, 1}, request(" 1"), "a writer beside readers");
}

Result<std::string> Trial::use_slots() {
  return hold_together({Mode::slot, 2}, request(" 1", {Mode::slot, 2}), "a third of two slots");
}

Result<std::string> Trial::take_several() {
  auto both = request(" 1");
  both.further_keys.push_back(trial_key(" 2"));
  DBLOCK_TRY(const auto lease, take(*book_, both));
  DBLOCK_CHECK(expect_refusal(*book_, request(" 2"), "one of several locks that are held together"));
  DBLOCK_CHECK(give_back(*book_, lease));
  return "";
}

Result<std::string> Trial::pause() {
  const auto scope = trial_scope();
  DBLOCK_TRY(const auto paused, book_->pause({scope, k_pause, holder_.host, "dblock doctor --try"}));
  const auto refused = expect_refusal(*book_, request(" 1"), "a paused lock");
  DBLOCK_TRY(const auto resumed, book_->resume(scope));
  DBLOCK_CHECK(refused);
  DBLOCK_TRY(const auto lease, take(*book_, request(" 1")));
  DBLOCK_CHECK(give_back(*book_, lease));
  return "";
}

Result<std::string> Trial::release_outer() {
  DBLOCK_CHECK(end(outer_, *lease_));
  return "";
}

std::vector<Finding> Trial::run() {
  struct Tried {
    const char* check;
    Step step;
    const char* what;
  };
  static constexpr auto k_tried = std::to_array<Tried>({
      {"try-grant", &Trial::take_outer, "a free lock is granted"},
      {"try-refusal", &Trial::refuse, "a held lock is refused"},
      {"try-renewal", &Trial::renew, "a lease is renewed"},
      {"try-handover", &Trial::hand_over, "the next in line gets the lock, with a greater token"},
      {"try-shared", &Trial::share, "readers share a lock, and keep a writer out"},
      {"try-slots", &Trial::use_slots, "as many holders as slots"},
      {"try-several", &Trial::take_several, "several locks at once"},
      {"try-pause", &Trial::pause, "a pause keeps a lock from being granted, until it ends"},
  });
  std::vector<Finding> findings;
  if (const auto paused = is_paused(*book_); paused && *paused) {
    findings.push_back({"try-grant",
                        Level::warn,
                        "paused",
                        "a pause covers the locks that --try takes; try again when it has ended",
                        {}});
    return findings;
  }
  const auto attempt = [&](const Tried& tried) {
    const BootTime begun = BootClock::now();
    const auto found = (this->*tried.step)();
    if (!found) {
      findings.push_back({tried.check, Level::bad, "failed", failure(found.error()), {}});
      return false;
    }
    findings.push_back(
        {tried.check, Level::ok, found->empty() ? length(BootClock::now() - begun) : *found, tried.what, {}});
    return true;
  };
  for (const auto& tried : k_tried) {
    if (!attempt(tried)) break;
  }
  if (lease_) attempt({"try-release", &Trial::release_outer, "a lock is released"});
  return findings;
}

}  // namespace

lease::OwnerId owner_of_trial(const lease::Holder& holder) {
  return lease::make_owner_id(holder.host, holder.pid, std::time(nullptr));
}

std::vector<Finding> try_out(const OpenStore& open, const lease::Holder& holder, Micros patience) {
  return Trial(open, holder, patience).run();
}

}  // namespace dblock::doctor
