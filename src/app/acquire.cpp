// `dblock acquire`: a lease for a script, which nobody renews unasked.
#include <unistd.h>

#include <utility>

#include "app/database.hpp"
#include "app/describe.hpp"
#include "app/identity.hpp"
#include "app/job_lease.hpp"
#include "app/use_cases.hpp"
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
    Ending ending =
        interrupted_by(signal, "while waiting for lock " + quoted(request.key) + "; nothing is held");
    ending.thread_left_behind = job.abandoned();
    return ending;
  }
  DBLOCK_TRY(const lease::GrantOutcome outcome, job.grant());
  warn_if_slow("acquiring", request.key, clock.now() - begun, request.warn_after, job.waited_for());
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
