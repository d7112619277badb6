// Where things are, and how patient to be.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string>

namespace dblock::test {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

[[nodiscard]] const std::string& dblock_binary();
[[nodiscard]] const std::string& job_binary();  // support/test_job.cpp
[[nodiscard]] const std::string& state_dir();   // in the build tree; made on first use
[[nodiscard]] const std::string& mariadbd_binary();
[[nodiscard]] const std::string& install_db_binary();
// The run is about MySQL (DBLOCK_TEST_MYSQLD names its server's program; see tests/mysql/install.sh), not
// MariaDB.
[[nodiscard]] bool mysql_run();
[[nodiscard]] const std::string& mysqld_binary();

// Sanitizers slow everything down; limits that bound a wait are stretched by this, leases are not.
// DBLOCK_TEST_SLOWNESS says it of a DBLOCK_TEST_BINARY that has sanitizers when the tests have none.
[[nodiscard]] int slowness();

// What a test draws by lot it draws from this number: DBLOCK_TEST_SEED, or always the same.
[[nodiscard]] unsigned chosen_seed();
// DBLOCK_TEST_FULL=1: take also the steps that a sweep leaves out for the sake of time.
[[nodiscard]] bool full_run();

// Longest wait for something that takes no time of its own.
[[nodiscard]] inline milliseconds patience() {
  return 15s * slowness();
}

// Polls `condition` every few milliseconds. False when `limit` passes first.
template <typename Condition>
[[nodiscard]] bool wait_until(Condition&& condition, milliseconds limit = patience());

// For what must be able to take less than `limit`: the shortest of the times that a few trials measure. A
// busy machine makes some of them long, a mistake of dblock's all.
template <typename Trial>
[[nodiscard]] std::chrono::nanoseconds best_of_some(milliseconds limit, Trial&& trial);

// CLOCK_REALTIME in microseconds since the epoch: on one machine the server's UTC_TIMESTAMP(6).
[[nodiscard]] long long realtime_micros();
// Polls until `over` holds, and returns when the last look began that found it not so: the proof of "still
// alive then", whatever time the looks themselves take on a loaded machine. Where none did, now; where `over`
// does not come, the end of time.
template <typename Condition>
[[nodiscard]] long long last_seen_before(Condition&& over);
// CLOCK_BOOTTIME in nanoseconds, as the jobs of test_job.cpp note it.
[[nodiscard]] long long boot_nanos();
void pause_for(milliseconds time);

// A directory that goes away with its owner.
class TempDir {
 public:
  explicit TempDir(const std::string& parent = "/tmp");
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

[[nodiscard]] std::string read_file(const std::string& path);  // empty when there is none
void write_file(const std::string& path, const std::string& text, unsigned mode = 0644);

template <typename Condition>
bool wait_until(Condition&& condition, milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return condition();
    pause_for(5ms);
  }
  return true;
}

template <typename Trial>
std::chrono::nanoseconds best_of_some(milliseconds limit, Trial&& trial) {
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 5 && best >= limit; ++i) best = std::min<std::chrono::nanoseconds>(best, trial());
  return best;
}

template <typename Condition>
long long last_seen_before(Condition&& over) {
  std::optional<long long> seen;
  const bool came = wait_until([&] {
    const long long now = realtime_micros();
    if (over()) return true;
    seen = now;
    return false;
  });
  if (!came) return std::numeric_limits<long long>::max();
  return seen.value_or(realtime_micros());
}

}  // namespace dblock::test
