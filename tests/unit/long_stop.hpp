// A job that is given long to stop.
#pragma once

#include "process/job.hpp"

namespace dblock::process {

// A kill grace of 4 s, a stop grace of ten minutes, and a slack of 1 s.
inline JobSpec long_to_stop_spec() {
  JobSpec spec;
  spec.kill_grace = std::chrono::seconds(4);
  spec.stop_grace = std::chrono::minutes(10);
  spec.slack = std::chrono::seconds(1);
  return spec;
}

}  // namespace dblock::process
