// run --retry: a job that fails is started again, under the same lock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/requests.hpp"
#include "process/supervisor.hpp"

namespace dblock::app {

struct Attempts {
  process::JobEnd last;     // how the run ends
  std::uint64_t count = 0;  // of the job's starts
};

// Runs the job until it succeeds, has failed for the last time, or is stopped. Each attempt finds its number
// in DBLOCK_ATTEMPT, beside `environment`.
[[nodiscard]] Attempts run_attempts(process::Supervisor& supervisor, const RunRequest& request,
                                    const std::vector<std::string>& environment);

// Before the attempt that follows so many others.
[[nodiscard]] Micros pause_before_retry(const JobRetry& retry, std::uint64_t attempts);

}  // namespace dblock::app
