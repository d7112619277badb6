// `dblock acquire`: a lease for a script, which nobody renews unasked.
#include <unistd.h>

#include <cstring>
#include <utility>

#include "app/database.hpp"
#include "app/describe.hpp"
#include "app/identity.hpp"
#include "app/job_lease.hpp"
#include "app/use_cases.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "process/signals.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

// The script is the holder, not this process, which is gone in a moment.
lease::AcquireRequest make_wanted(const AcquireRequest& request) {
  const auto script = static_cast<std::uint32_t>(::getppid());
  lease::AcquireRequest wanted{request.key,
                               {},
                               lease::Kind::acquire,
                               request.timing.terms(),
                               make_holder(request.identity, script, program_of(script))};
  wanted.terms.heartbeat.reset();
  wanted.owner = new_owner_id(wanted.holder);
  return wanted;
}

Ending interrupted_by(int signal, const lease::Key& key) {
  return Ending{.how = Ending::How::interrupted,
                .number = signal,
                .message = std::string("stopped by SIG") + sigabbrev_np(signal) + " while waiting for lock " +
                           quoted(key) + "; nothing is held"};
}

void warn_if_slow(const AcquireRequest& request, Nanos took, const JobLease& lease) {
  if (took <= request.warn_after) return;
  const auto held_by = lease.waited_for();
  log::warning("acquiring lock " + quoted(request.key) + " took " +
               format_age(std::chrono::duration_cast<Micros>(took)) +
               (held_by ? "; it was held by " + display_holder(*held_by) : ""));
}

}  // namespace

Result<std::variant<Acquired, Ending>> acquire(const AcquireRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  const process::Signals signals;  // before the thread: a signal must not strand a lock that was just granted
  static SystemClock clock;
  JobLease job(store::open_store(settings, {lease::network_timeout(request.timing.ttl), Micros{0}}, clock),
               make_wanted(request), request.wait, request.timing, nullptr);
  const BootTime begun = clock.now();
  job.start_acquire();
  if (const int signal = signals.wait(job.done(), std::nullopt); signal != 0) {
    job.cancel_acquire();
    Ending ending = interrupted_by(signal, request.key);
    ending.thread_left_behind = job.abandoned();
    return ending;
  }
  DBLOCK_TRY(const lease::GrantOutcome outcome, job.grant());
  warn_if_slow(request, clock.now() - begun, job);
  if (const auto* conflict = std::get_if<lease::Conflict>(&outcome)) {
    return Ending{
        .how = Ending::How::held, .number = 75, .message = describe_conflict(request.key, conflict->status)};
  }
  const auto& lease = std::get<lease::Lease>(outcome);
  DBLOCK_TRY(const auto status, job.store().peek(request.key));
  if (!status || status->owner != lease.owner.text) {
    return Ending{.how = Ending::How::lost,
                  .message = "lock " + quoted(request.key) + " was granted and taken away again at once"};
  }
  return Acquired{lease, *status};
}

}  // namespace dblock::app
