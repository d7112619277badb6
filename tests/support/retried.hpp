#pragma once

// A run of "k" in the pause after the first attempt of its job, which failed; and what its job has noted.
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/steps.hpp"

namespace dblock::test {

// The options of a run that would start its job again an hour later.
inline const Words k_in_an_hour{"-v", "--retry", "1", "--retry-delay", "1h", "--retry-max-delay", "1h"};

class PausedRun : private TempDir, public Process {
 public:
  // The job notes the number of each attempt, and then does this.
  explicit PausedRun(const Database& database, const Words& options = {}, const std::string& job = "exit 3",
                     const Words& retry = k_in_an_hour)
      : Process(dblock_spawn(database,
                             run_words("k", with(with(retry, options), {"--status-file", file("status")}),
                                       sh("echo $DBLOCK_ATTEMPT >>" + file("log") + "; " + job)))) {
    if (!soon_says(*this, "dblock: attempt 2 of ")) throw std::runtime_error("no pause");
  }
  [[nodiscard]] Words attempts() const { return lines(read_file(file("log"))); }
  [[nodiscard]] std::string status() const { return read_file(file("status")); }
};

}  // namespace dblock::test
