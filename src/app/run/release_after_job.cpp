#include "app/run/release_after_job.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "app/release_after_death.hpp"
#include "app/silence_watch.hpp"
#include "app/words/describe.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "lease/owner_id.hpp"
#include "lease/release.hpp"
#include "process/signals.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using lease::ReleaseResult;
using process::JobEnd;
using process::Stop;

// How long a run that has ended waits for a database that does not confirm the release.
constexpr Micros k_release_patience = 10s;
// After self-fencing the database is most likely still away, and the lease ends by itself in a moment.
constexpr Micros k_fenced_release_patience = 500ms;
// Until the run says what it goes on trying to record.
constexpr Micros k_recording_patience = 1s;

lease::RunEnd row_end_of(const EndedJob& job) {
  lease::RunEnd end = row_end(job.ending, job.request.promises.keep_on_failure);
  end.attempts = static_cast<std::uint32_t>(job.attempts);
  return end;
}

class Releasing {
 public:
  explicit Releasing(const EndedJob& job) : job_(job), row_end_(row_end_of(job)) {}

  GivenBack go();

 private:
  [[nodiscard]] std::string unrecorded() const;
  [[nodiscard]] std::optional<std::uint32_t> failures() const;
  [[nodiscard]] Stop await_session();
  ReleaseResult release(bool fenced);
  ReleaseResult release_again(lease::Actor actor);
  ReleaseResult release_after_nested();
  void say_no_release() const;
  void say_daemons() const;
  void warn_of_unknown_release() const;

  const EndedJob& job_;
  const lease::RunEnd row_end_;
  std::string missing_;  // what is not kept where the end of the run is not recorded; empty: nothing
  GivenBack given_back_;
};

GivenBack Releasing::go() {
  const JobEnd& end = job_.end;
  const bool fenced = end.stop.reason == Stop::Reason::self_fence;
  if (fenced || !end.tree_dead) job_.session.stop_heartbeat(fenced);
  if (!end.tree_dead) {
    log::warning("some of the job's processes could not be stopped, so the lease of " + job_.locks +
                 " is left to expire instead of being released");
    given_back_.release = "expires";
    return given_back_;  // without dismiss_guardian(): the guardian ends after dblock
  }
  // When the deadline passed because the database is away, a release would not reach it either, and the lease
  // ends by itself in a moment. (When the database is well, dblock was frozen or the lease was revoked.)
  const bool away = !job_.session.lost() && (!job_.session.trouble().empty() || !job_.session.responsive());
  if (fenced && away) {
    given_back_.release = "lost";
  } else {
    const auto result = release(fenced);
    if (result == ReleaseResult::released) {
      given_back_.release = "released";
      given_back_.failures = failures();
    }
    if (result == ReleaseResult::unknown) {
      given_back_.release = "unknown";
      if (job_.ending.how != Ending::How::lost) warn_of_unknown_release();
    }
  }
  job_.supervisor.dismiss_guardian();
  return given_back_;
}

ReleaseResult Releasing::release(bool fenced) {
  const BootTime begun = BootClock::now();
  const bool stopped = job_.end.stop || job_.request.leftovers == process::Leftovers::kill;
  const bool all_stopped = stopped && job_.end.left_behind.empty();
  const auto actor = all_stopped ? lease::Actor::stopper : lease::Actor::holder;
  missing_ = unrecorded();
  const Micros patience = missing_.empty() ? k_release_patience : k_recording_patience;
  const bool counts = !job_.request.hooks.end.empty() && lease::is_failure(row_end_.outcome);
  const bool goes_on = !fenced && !missing_.empty();
  auto result = job_.session.release(lease::ref_to(job_.lease), actor, row_end_,
                                     {.patience = fenced ? k_fenced_release_patience : patience,
                                      .counts = counts,
                                      .goes_on = goes_on,
                                      .silence = process::k_silence,
                                      .on_silence = [this] { say_no_release(); }});
  if (result == ReleaseResult::unknown && goes_on) result = release_again(actor);
  if (result == ReleaseResult::nested) return release_after_nested();
  say_daemons();
  if (result == ReleaseResult::released && !fenced)
    warn_if_slow("releasing", job_.locks, BootClock::now() - begun, job_.request.warn_after);
  return result;
}

std::string Releasing::unrecorded() const {
  if (!lease::is_awaited(job_.request.promises, row_end_)) return "";
  return row_end_.cooldown > Micros{0} ? "it is not kept for --keep-on-failure"
                                       : "--once-per does not know that the job has succeeded";
}

// Of a nested run no end is recorded.
std::optional<std::uint32_t> Releasing::failures() const {
  if (lease::is_nested(job_.lease.owner)) return std::nullopt;
  if (row_end_.outcome == lease::RunOutcome::succeeded) return 0;
  return job_.session.failures();
}

// Waits until the session's thread has ended what it was started for. A Stop ends that early.
Stop Releasing::await_session() {
  const Stop stop = job_.supervisor.await(job_.session.done());
  if (stop) job_.session.stop_heartbeat(false);
  return stop;
}

// Tries on while the lease lasts. Who stops the run then wants it to end.
ReleaseResult Releasing::release_again(lease::Actor actor) {
  if (job_.session.abandoned()) return ReleaseResult::unknown;
  log::info("the end of the job under " + job_.locks + " could not be recorded (" + job_.session.trouble() +
            "); trying on while the lease lasts, since else " + missing_);
  job_.session.start_release_again(lease::ref_to(job_.lease), actor, row_end_);
  const Stop stop = await_session();
  if (stop.reason != Stop::Reason::guardian) given_back_.wait_stopped = stop;
  return job_.session.release_result();
}

// Waits until the nested run, which goes on renewing the lease, has ended, and then releases.
ReleaseResult Releasing::release_after_nested() {
  log::info("a nested run still holds " + job_.locks +
            " too, or ended without releasing it; waiting for the nested run, or for the end of the lease");
  job_.session.start_release_after_nested(lease::ref_to(job_.lease), row_end_, k_release_patience);
  const Stop stop = await_session();
  const ReleaseResult result = job_.session.release_result();
  if (!stop && result == ReleaseResult::not_ours) given_back_.release = "expires";
  if (!stop || result != ReleaseResult::nested) return result;
  if (stop.reason != Stop::Reason::guardian) given_back_.wait_stopped = stop;
  log::warning("the wait for a nested run was ended: " + job_.locks +
               " stays held, and expires when that run does not renew the lease any more");
  given_back_.release = "expires";
  return result;
}

void Releasing::say_no_release() const {
  log::info(
      "the release of " + job_.locks + " is not confirmed yet: " +
      describe_silence(job_.settings, format_duration(k_release_patience) + " after the job has ended"));
}

void Releasing::say_daemons() const {
  for (const std::string& daemon : job_.end.left_behind)
    log::warning("the job left a process of its own session behind, which runs on without the lock: " +
                 daemon);
}

void Releasing::warn_of_unknown_release() const {
  log::warning("the release of " + job_.locks + " could not be confirmed (" + job_.session.trouble() +
               "); if it did not work, the lock " + describe_own_end(job_.request.timing) +
               (missing_.empty() ? "" : ", and " + missing_));
}

lease::RunEnd end_of_dead_run(const DeadRun& run) {
  const lease::Promises& promises = run.request.promises;
  lease::RunEnd end{lease::RunOutcome::abandoned, std::nullopt, promises.keep_on_failure};
  if (const auto& known = run.job.end)
    end = row_end(ending_of(*known, run.request), promises.keep_on_failure);
  return end;
}

}  // namespace

GivenBack release_after_job(const EndedJob& job) {
  return Releasing(job).go();
}

bool release_for_dead_run(const DeadRun& run) {
  const lease::Promises& promises = run.request.promises;
  // The guardian of a further attempt does not know what earlier ones have left behind.
  const bool retried = run.request.retry.count > 0;
  const bool some_left = retried || (run.job.end && !run.job.end->left_behind.empty());
  lease::RunEnd end = end_of_dead_run(run);
  const bool awaited = lease::is_awaited(promises, end);
  // The row counts --min-hold from the start of the granting statement, which may have had to wait.
  if (run.job.guarded_since && end.outcome != lease::RunOutcome::not_run)
    end.cooldown = std::max(end.cooldown, promises.hold_left(*run.job.guarded_since, BootClock::now()));
  return release_after_death(run.settings, run.wanted,
                             some_left ? lease::Actor::holder : lease::Actor::stopper, end, awaited);
}

}  // namespace dblock::app
