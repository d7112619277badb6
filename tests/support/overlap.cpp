#include "support/overlap.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "support/config.hpp"

namespace dblock::test {

std::vector<Interval> read_intervals(const std::string& file) {
  std::map<int, Interval> by_pid;  // each job is a process of its own; ids are not reused within a test
  std::istringstream in(read_file(file));
  std::string what;
  Interval line;
  long long when = 0;
  while (in >> what >> when >> line.token >> line.pid) {
    Interval& interval = by_pid[line.pid];
    interval.token = line.token;
    interval.pid = line.pid;
    (what == "begin" ? interval.begin_ns : interval.end_ns) = when;
  }
  std::vector<Interval> all;
  for (const auto& [pid, interval] : by_pid) all.push_back(interval);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return all;
}

std::string exclusion_violation(const std::vector<Interval>& in_order) {
  for (std::size_t i = 1; i < in_order.size(); ++i) {
    const Interval& before = in_order[i - 1];
    const Interval& after = in_order[i];
    const std::string pair = std::to_string(before.pid) + " and " + std::to_string(after.pid);
    if (before.end_ns == 0) return "job " + std::to_string(before.pid) + " has no end";
    if (after.begin_ns <= before.end_ns) return "jobs " + pair + " overlap";
    if (after.token <= before.token) return "tokens of jobs " + pair + " do not rise";
  }
  return "";
}

}  // namespace dblock::test
