#include "support/overlap.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "support/config.hpp"

namespace dblock::test {

std::vector<std::string> interval_job(const std::string& file, int ms) {
  return {job_binary(), "interval", file, std::to_string(ms)};
}

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
    if (what == "begin") interval.begin_ns = when;
    if (what == "end") interval.end_ns = when;
    if (what == "beside") interval.beside_another = true;
  }
  std::vector<Interval> all;
  for (const auto& [pid, interval] : by_pid) all.push_back(interval);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return all;
}

std::string exclusion_violation(const std::vector<Interval>& in_order) {
  for (std::size_t i = 0; i + 1 < in_order.size(); ++i) {
    if (in_order[i].end_ns == 0) return "job " + std::to_string(in_order[i].pid) + " has no end";
  }
  return exclusion_violation_despite_kills(in_order);
}

std::string exclusion_violation_despite_kills(const std::vector<Interval>& in_order) {
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    const Interval& after = in_order[i];
    if (after.beside_another) return "job " + std::to_string(after.pid) + " began beside another";
    if (i == 0) continue;
    const Interval& before = in_order[i - 1];
    const std::string pair = std::to_string(before.pid) + " and " + std::to_string(after.pid);
    if (after.begin_ns <= before.end_ns) return "jobs " + pair + " overlap";
    if (after.token <= before.token) return "tokens of jobs " + pair + " do not rise";
  }
  return "";
}

}  // namespace dblock::test
