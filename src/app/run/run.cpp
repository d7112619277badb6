// `dblock run`: joins the lease and the job's processes, which know nothing of each other.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <utility>
#include <variant>

#include "app/identity.hpp"
#include "app/run/attempts.hpp"
#include "app/run/hooks.hpp"
#include "app/run/job_environment.hpp"
#include "app/run/job_spec.hpp"
#include "app/run/release_after_job.hpp"
#include "app/run/splay.hpp"
#include "app/run/status_file.hpp"
#include "app/silence_watch.hpp"
#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "app/words/describe.hpp"
#include "app/words/ending.hpp"
#include "app/words/session_reports.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "process/supervisor.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

using process::JobEnd;
using process::Stop;

// The keys beside the first one: all are wanted, or in a pool any.
const std::vector<lease::Key>& further_or_any(const RunRequest& request) {
  return request.any.empty() ? request.further_keys : request.any;
}

// One run, from the lookup of its command to its status file.
class Run {
 public:
  explicit Run(const RunRequest& request) : request_(request) {
    status_.key = key_lines(request.key, further_or_any(request));
    status_.started_at = std::chrono::system_clock::now();
    if (request.expect) status_.overdue = false;
  }

  Ending go() {
    const auto result = attempt();
    Ending ending = result ? *result : Ending::failed(result.error());
    ending.thread_left_behind = session_ && session_->abandoned();
    write_status(ending);
    if (hooks_) hooks_->ended(lease_, ending, failures_, describe_end(ending, locks_));
    return ending;
  }

 private:
  Result<Ending> attempt();
  Result<void> prepare_status_file();
  [[nodiscard]] lease::LeaseRequest wanted_lease() const;
  [[nodiscard]] lease::SessionEvents session_events() const;
  Result<Ending> wait_for_grant();
  Result<Ending> give_up_wait(const Stop& stop);
  void dismiss_guardian();
  Ending end_without_lease(const lease::AcquireOutcome& outcome);
  Ending run_under(const lease::Lease& lease);
  Ending conclude(const lease::Lease& lease, const JobEnd& end);
  void say_overdue();
  void say_stop(const JobEnd& end) const;
  [[nodiscard]] std::string describe_loss() const;
  void write_status(const Ending& ending) const;

  const RunRequest& request_;
  std::vector<std::string> unsaid_;  // warnings that a skip must not repeat on each host of a fleet
  store::Settings settings_;
  std::string store_name_;
  lease::LeaseRequest wanted_ = wanted_lease();
  std::string locks_ = lock_names(request_.key, further_or_any(request_));
  std::optional<StatusFile> status_file_;
  RunStatus status_;
  std::optional<lease::Lease> lease_;
  std::optional<std::uint32_t> failures_;  // as GivenBack::failures
  std::shared_ptr<RunHooks> hooks_;
  std::shared_ptr<process::Supervisor> supervisor_;
  std::unique_ptr<lease::Session> session_;
};

// Status file and hooks come first, so that they tell of whatever fails later: an old document must not pass
// for this run's.
Result<Ending> Run::attempt() {
  const auto prepared = prepare_status_file();
  lease::LeaseRequest shown = wanted_;  // hooks are told all keys of a pool until one is granted
  shown.further_keys = further_or_any(request_);
  DBLOCK_TRY(hooks_, RunHooks::prepare(request_.hooks, shown));
  if (!prepared) return std::unexpected(prepared.error());
  DBLOCK_TRY(const process::JobSpec spec, make_spec(request_));
  DBLOCK_TRY(settings_,
             settings_from(request_.database, request_.conflict_exit_code == 0 ? &unsaid_ : nullptr));
  store_name_ = store::display(settings_);
  wanted_.outer = outer_of(request_, store_name_);
  DBLOCK_TRY(supervisor_,
             process::Supervisor::start(spec, request_.with_parent, [this](const process::JobAtDeath& job) {
               release_for_dead_run({request_, settings_, wanted_, job});
             }));
  const Micros splay = splay_of(wanted_.holder.host, status_.key, request_.splay);
  if (const Stop stop = wait_for_splay(*supervisor_, splay, locks_)) return give_up_wait(stop);
  // Made after the guardian's fork: from here on there are threads.
  static SystemClock clock;  // an abandoned thread may use it until the process ends
  session_ = std::make_unique<lease::Session>(
      store::open_store(settings_, session_options(request_.timing), clock), clock, wanted_, request_.wait,
      request_.timing, with_reports(request_.wait, session_events(), clock));
  return wait_for_grant();
}

Result<void> Run::prepare_status_file() {
  if (!request_.status_file) return {};
  DBLOCK_TRY(status_file_, StatusFile::prepare(*request_.status_file));
  return {};
}

lease::LeaseRequest Run::wanted_lease() const {
  const lease::Holder holder =
      make_holder(request_.identity, static_cast<std::uint32_t>(::getpid()), describe_command(request_));
  return {.key = request_.key,
          .further_keys = request_.further_keys,
          .owner = new_owner_id(holder),
          .kind = lease::Kind::run,
          .terms = request_.timing.terms(),
          .holder = holder,
          .promises = request_.promises,
          .sharing = request_.sharing,
          .line = request_.line,
          .replaces = request_.replaces,
          .replaceable = request_.replaceable,
          .any = request_.any};
}

// The session's thread calls these. It may outlive this Run, so they share the ownership of what they use.
lease::SessionEvents Run::session_events() const {
  lease::SessionEvents events;
  events.acquiring.on_wait = [hooks = hooks_](const lease::LockStatus& holder) { hooks->waiting(holder); };
  events.acquiring.on_send = [supervisor = supervisor_] { supervisor->arm_release(); };
  events.on_renewed = [supervisor = supervisor_](BootTime deadline) { supervisor->set_deadline(deadline); };
  events.on_lost = [supervisor = supervisor_,
                    replaceable = request_.replaceable](const lease::NotOurs& lost) {
    const bool replaced = replaceable && lost.why == lease::NotOursWhy::revoked;
    supervisor->stop_lost(replaced ? Stop::Reason::revoked : Stop::Reason::lost);
  };
  return events;
}

Result<Ending> Run::wait_for_grant() {
  session_->start_acquire();
  const Stop stop = supervisor_->await(session_->done(), {}, [this] {
    say_no_answer(*session_, settings_, session_options(request_.timing), request_.wait);
  });
  if (stop) return give_up_wait(stop);
  auto outcome = session_->grant();
  status_.waited = session_->waited();
  if (!outcome) {
    dismiss_guardian();
    if (outcome.error().code == Errc::lost) hooks_->lost(std::nullopt, outcome.error().message);
    return std::unexpected(outcome.error());
  }
  const auto* lease = std::get_if<lease::Lease>(&*outcome);
  if (lease != nullptr) warn_if_slow("acquiring", locks_, session_->grant_took(), request_.warn_after);
  return lease != nullptr ? run_under(*lease) : end_without_lease(*outcome);
}

// An unknown outcome is left to the guardian: it releases the lock by owner id after dblock's end.
void Run::dismiss_guardian() {
  if (!session_->may_be_granted_later()) supervisor_->dismiss_guardian();
}

Ending Run::end_without_lease(const lease::AcquireOutcome& outcome) {
  dismiss_guardian();
  if (const auto* done = std::get_if<lease::Done>(&outcome)) {
    Ending skipped{.how = Ending::How::skipped,
                   .message = describe_done(done->status, request_.promises.once_per->period)};
    log::info(skipped.message);
    return skipped;
  }
  const auto& [holder, left_line_to] = std::get<lease::Held>(outcome);
  Ending refused = Ending::held(describe_refusal(holder, !request_.wait.once()));
  refused.number = request_.conflict_exit_code;
  if (!request_.any.empty()) refused.message = "none of " + locks_ + " is free: " + refused.message;
  if (left_line_to) refused.message += describe_line(*left_line_to, request_.line);
  // With -E 0 a held lock is nothing to talk about. But a pause that somebody has forgotten must not go
  // unnoticed.
  if (refused.number == 0 && holder.only_paused()) log::warning(refused.message);
  hooks_->conflict(holder, refused.message);
  return refused;
}

Result<Ending> Run::give_up_wait(const Stop& stop) {
  bool nothing_left = !session_ || session_->cancel_acquire();
  if (nothing_left) supervisor_->dismiss_guardian();
  if (stop.reason == Stop::Reason::guardian) {
    // Nobody else is left who would release the lock.
    if (!nothing_left)
      nothing_left = release_for_dead_run({request_, settings_, wanted_, {process::JobEnd{}, std::nullopt}});
    const std::string left =
        nothing_left ? "" : "; if " + locks_ + " was taken, it " + describe_own_end(request_.timing);
    return fail(Errc::internal,
                "the guardian process died before the job could start; nothing was run. Was it killed by "
                "hand? Run it again" +
                    left);
  }
  if (session_) status_.waited = session_->waited();
  return interrupted_by(stop, "while waiting for " + locks_ + "; nothing was run");
}

Ending Run::run_under(const lease::Lease& lease) {
  lease_ = lease;
  locks_ = lock_names(lease.key, lease.further_keys);
  status_.key = key_lines(lease.key, lease.further_keys);
  status_.owner = lease.owner.text;
  status_.token = lease.token.value;
  status_.acquired_at = std::chrono::system_clock::now();
  for (const std::string& warning : unsaid_) log::warning(warning);
  log::debug(locks_ + " acquired, token " + std::to_string(lease.token.value));
  supervisor_->set_deadline(request_.timing.expires(lease.sent_at));
  session_->start_heartbeat(lease);
  supervisor_->on_start([this, &lease] { hooks_->job_started(lease); });
  supervisor_->on_loss([this, &lease] { hooks_->lost(lease, describe_loss()); });
  if (request_.expect) supervisor_->on_overdue(*request_.expect, [this] { say_overdue(); });
  supervisor_->on_leftovers([this](auto job_ended_at) { session_->tell_others({job_ended_at}); });
  const Attempts attempts =
      run_attempts(*supervisor_, request_, job_environment(lease, request_.held, store_name_));
  status_.ended_at = std::chrono::system_clock::now();
  status_.attempts = attempts.count;
  return conclude(lease, attempts.last);
}

Ending Run::conclude(const lease::Lease& lease, const JobEnd& end) {
  Ending ending = ending_of(end, request_);
  // The heartbeat may have learnt that the lease is lost after the job had already ended.
  if (session_->lost()) ending.how = Ending::How::lost;
  const GivenBack given_back = release_after_job(
      {request_, settings_, *session_, *supervisor_, lease, locks_, end, ending, status_.attempts});
  status_.release = given_back.release;
  failures_ = given_back.failures;
  say_stop(end);
  const auto lost = session_->lost();
  const bool recorded = given_back.release == "released";
  // So may the release; but what it has recorded stands.
  if (lost && !recorded) ending.how = Ending::How::lost;
  if (ending.how == Ending::How::lost) {
    failures_.reset();
    hooks_->lost(lease, describe_loss());
    if (!recorded) status_.release = "lost";
    ending = lost_ending(end, describe_loss());
  }
  ending.stop = end.stop ? end.stop : given_back.wait_stopped;
  if (ending.stop.reason == Stop::Reason::lost && lost && lost->why == lease::NotOursWhy::revoked)
    ending.stop.reason = Stop::Reason::revoked;
  return ending;
}

void Run::say_overdue() {
  const std::string message = "the job under " + locks_ + " has run for longer than --expect " +
                              format_duration(*request_.expect) + "; it goes on";
  status_.overdue = true;
  log::warning(message);
  hooks_->overdue(*lease_, message);
}

// After Ctrl-C the user knows who stopped the job, so the sentence is for debugging only, unless the job, or
// what it left running, took no notice of the signal.
void Run::say_stop(const JobEnd& end) const {
  const std::string words = describe_stop(end);
  if (words.empty()) return;
  const bool prompt = !end.stop.killed && end.leftovers_took == Nanos{0};
  const bool known = end.stop.from_terminal && prompt;
  log::write(known ? log::Level::debug : log::Level::error, words);
}

std::string Run::describe_loss() const {
  if (const auto lost = session_->lost()) {
    const std::string which = lost->status ? "lock " + quote_untrusted(lost->status->key) : locks_;
    return which + " " + describe_not_ours(*lost);
  }
  const std::string trouble = session_->trouble();
  return locks_ + " could not be renewed in time" + (trouble.empty() ? "" : " (" + trouble + ")");
}

void Run::write_status(const Ending& ending) const {
  if (!status_file_) return;
  const auto written = status_file_->commit(status_document(status_, ending));
  if (!written) log::warning(written.error().message);
}

}  // namespace

Ending run(const RunRequest& request) {
  return Run(request).go();
}

}  // namespace dblock::app
