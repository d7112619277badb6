#include "app/run/attempts.hpp"

#include <algorithm>
#include <cerrno>

#include "app/run/job_spec.hpp"
#include "app/words/ending.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "lease/backoff.hpp"

namespace dblock::app {
namespace {

std::string end_of_attempt(const process::JobEnd& end, const RunRequest& request) {
  return program_name(request) + (end.status->signalled
                                      ? " was killed by SIG" + signal_name(end.status->number)
                                      : " exited with " + std::to_string(end.status->number));
}

std::string not_started(const std::string& attempt, int err) {
  const std::string what = attempt + " could not be started";
  return err == ECHILD || err == ETIMEDOUT
             ? what + ": the process that starts guardians is gone, or does not answer"
             : with_errno(what, err);
}

std::string number_of_attempt(std::uint64_t number, const RunRequest& request) {
  return "attempt " + std::to_string(number) + " of " + std::to_string(request.retry.count + 1);
}

}  // namespace

Micros pause_before_retry(const JobRetry& retry, std::uint64_t attempts) {
  return std::min(lease::pause_after(attempts, retry.delay, lease::Backoff::k_doubling), retry.max_delay);
}

Attempts run_attempts(process::Supervisor& supervisor, const RunRequest& request,
                      const std::vector<std::string>& environment) {
  const auto numbered = [&environment](std::uint64_t number) {
    auto variables = environment;
    variables.push_back("DBLOCK_ATTEMPT=" + std::to_string(number));
    return variables;
  };
  Attempts attempts{supervisor.run_job(numbered(1), request.max_runtime), 0};
  if (attempts.last.started) attempts.count = 1;
  while (attempts.count <= request.retry.count && attempts.last.failed_by_itself()) {
    const Micros pause = pause_before_retry(request.retry, attempts.count);
    const std::string next = number_of_attempt(attempts.count + 1, request);
    log::info(next + " in " + format_duration(pause) + ": " + end_of_attempt(attempts.last, request));
    attempts.last = supervisor.run_again(numbered(attempts.count + 1), pause);
    if (attempts.last.not_again_errno != 0)
      log::warning(not_started(next, attempts.last.not_again_errno) +
                   "; the run ends as the attempt before it did");
    if (attempts.last.stopped_between || attempts.last.not_again_errno != 0) break;
    ++attempts.count;
  }
  return attempts;
}

}  // namespace dblock::app
