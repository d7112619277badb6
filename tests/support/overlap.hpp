// Detects two jobs under one lock at the same time. Jobs (test_job interval) append begin and end, with the
// boot clock and their token, to one file; a line is written by one write() and so never torn. A job that is
// killed writes no end, so each also holds the kernel's lock on the file for as long as it or a child of its
// lives, stopped or not: whoever finds it held began beside another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dblock::test {

struct Interval {
  long long begin_ns = 0;
  long long end_ns = 0;  // 0: killed before its end
  std::uint64_t token = 0;
  int pid = 0;
  bool beside_another = false;
};

// The job that does so, for so many milliseconds.
[[nodiscard]] std::vector<std::string> interval_job(const std::string& file, int ms);
[[nodiscard]] std::vector<Interval> read_intervals(const std::string& file);  // in order of begin

// "" when no two intervals overlap and tokens rise from each to the next, else what is wrong.
[[nodiscard]] std::string exclusion_violation(const std::vector<Interval>& in_order);
// … where jobs may have been killed before their end.
[[nodiscard]] std::string exclusion_violation_despite_kills(const std::vector<Interval>& in_order);

}  // namespace dblock::test
