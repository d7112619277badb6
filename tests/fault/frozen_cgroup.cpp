// Processes frozen by their cgroup, as `docker pause` and a service manager do it: unlike one that is
// stopped, such a process sleeps by what /proc tells of it, no SIGCONT wakes it, and SIGKILL alone reaches
// it.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

// The part of a line that follows `begin`; "" when the line begins otherwise.
std::string rest_after(const std::string& begin, const std::string& line) {
  return line.starts_with(begin) ? line.substr(begin.size()) : "";
}

// The test's own cgroup (version 2), in which it makes others; "" without one.
std::string own_cgroup() {
  std::string mounted, path;
  for (const auto& line : lines(read_file("/proc/self/mounts"))) {
    std::istringstream words(line);
    std::string device, where, type;
    if (words >> device >> where >> type && type == "cgroup2") mounted = where;
  }
  for (const auto& line : lines(read_file("/proc/self/cgroup"))) path += rest_after("0::", line);
  return mounted.empty() || path.empty() ? "" : mounted + path;
}

// A cgroup of this object's own, gone with it. The processes in it must have ended by then.
class Cgroup {
 public:
  Cgroup() : path_(own_cgroup() + "/dblock-test-" + new_mark()) {
    std::error_code failed;
    exists_ = fs::create_directory(path_, failed);
  }
  ~Cgroup() {
    if (!exists_) return;
    static_cast<void>(wrote("cgroup.freeze", "0"));
    std::error_code failed;
    static_cast<void>(wait_until([&] { return fs::remove(path_, failed); }));
  }
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  [[nodiscard]] std::string why_not() const {
    return exists_ && wrote("cgroup.freeze", "0") ? "" : "no cgroup (version 2) can be made and frozen";
  }
  void take(const std::vector<pid_t>& processes) const {
    for (const pid_t pid : processes) write("cgroup.procs", std::to_string(pid));
  }
  // Returns when none of its processes runs any more.
  void freeze() const {
    write("cgroup.freeze", "1");
    const auto frozen = [&] { return says(read_file(path_ + "/cgroup.events"), "frozen 1"); };
    if (!wait_until(frozen)) throw std::runtime_error("the cgroup does not freeze");
  }
  void thaw() const { write("cgroup.freeze", "0"); }

 private:
  [[nodiscard]] bool wrote(const std::string& file, const std::string& text) const {
    std::ofstream out(path_ + "/" + file);
    out << text << std::flush;
    return out.good();
  }
  void write(const std::string& file, const std::string& text) const {
    if (!wrote(file, text)) throw std::runtime_error("cannot write " + text + " into " + path_ + "/" + file);
  }
  const std::string path_;
  bool exists_ = false;
};

std::string why_no_freezer() {
  return Cgroup().why_not();
}

// Owner id and token of the holder.
std::string holder_in(const Database& database) {
  return database.column("k", "lock_value") + " " + database.column("k", "token");
}

// Job, guardian and dblock, soon after a renewal.
void freeze_whole(const Process& run, const Cgroup& group, const Database& database) {
  group.take(run.tree());
  await_renewal(database);
  group.freeze();
}

TEST_CASE(
    "a whole run frozen by its cgroup beyond its lease: thawed, its job is stopped and it exits 76, and the "
    "next holder has a greater token",
    "[server][safety]") {
  DBLOCK_NEEDS(why_no_freezer());
  const Database database;
  const Cgroup group;
  TreeRun run(database, {"--ttl", "4s", "--margin", "500ms"});
  freeze_whole(run, group, database);
  const long long expires = database.expires_micros("k");
  const auto token = std::stoll(database.column("k", "token"));
  LiveRun next(database, {"--ttl", "1h", "--wait", "1h"});
  const std::string holder = holder_in(database);
  CHECK(database.micros("k", "create_time") >= expires + 500'000);
  CHECK(std::stoll(database.column("k", "token")) > token);
  CHECK(alive(run.job));  // nobody was there to stop it: the token alone tells that it is late
  group.thaw();
  const auto thawed = steady_clock::now();
  CHECK(soon_gone(run));  // the job does not end by itself
  std::cout << "from the thaw to the end of job and run: "
            << std::chrono::duration_cast<milliseconds>(steady_clock::now() - thawed).count() << " ms\n";
  CHECK(run.wait() == exited(76));
  INFO(run.err());
  CHECK(says(run.err(), "the job was stopped"));
  CHECK(holder_in(database) == holder);
  CHECK(next.end() == exited(0));
}

TEST_CASE("a whole run frozen by its cgroup for less than its lease goes on under the same lease",
          "[server][safety]") {
  DBLOCK_NEEDS(why_no_freezer());
  const Database database;
  const Cgroup group;
  LiveRun run(database, {"--ttl", "1m", "--heartbeat", "300ms"});
  freeze_whole(run, group, database);
  const std::string holder = holder_in(database);
  const auto left = [&] { return database.expires_micros("k") - realtime_micros(); };
  REQUIRE(wait_until([&] { return left() < 58'500'000; }));  // it has missed several renewals
  CHECK(run_true(database) == exited(75));
  group.thaw();
  CHECK(soon_renewed(database));
  CHECK(holder_in(database) == holder);
  CHECK(run.end() == exited(0));
  CHECK_FALSE(says(run.err(), "lost"));
}

// A run with a short heartbeat whose job alone is frozen, or its guardian too.
class FrozenJobRun {
 public:
  explicit FrozenJobRun(const Database& database, const Words& options, bool guardian_too = false)
      : database_(database),
        run(database, with({"--ttl", "1h", "--heartbeat", "300ms", "--kill-grace", "300ms"}, options)) {
    group_.take(descendants_of(guardian_too ? run.pid() : run.guardian));
    group_.freeze();
  }
  // It ends with this code, and neither job nor lock are left.
  void check_ends_dead_and_released(int code) {
    check_ends(run, code);
    CHECK(run.tree().empty());
    CHECK_FALSE(database_.has_holder("k"));
  }

 private:
  const Database& database_;
  const Cgroup group_;

 public:
  TreeRun run;
};

TEST_CASE("a job that its cgroup has frozen keeps its lock, renewed, and is dead at the end of its time",
          "[server][safety]") {
  DBLOCK_NEEDS(why_no_freezer());
  const Database database;
  FrozenJobRun frozen(database, {"--max-runtime", "4s"});
  const std::string holder = holder_in(database);
  await_renewal(database);
  CHECK(holder_in(database) == holder);
  frozen.check_ends_dead_and_released(124);
}

TEST_CASE("a job that its cgroup has frozen is dead before a lost lease is given back", "[server][safety]") {
  DBLOCK_NEEDS(why_no_freezer());
  const Database database;
  FrozenJobRun frozen(database, {});
  revoke(database);
  frozen.check_ends_dead_and_released(76);
}

TEST_CASE("a guardian that a cgroup has frozen with its job: dblock stops both before it gives the lock back",
          "[server][safety]") {
  DBLOCK_NEEDS(why_no_freezer());
  const Database database;
  FrozenJobRun frozen(database, {}, true);
  revoke(database);
  frozen.check_ends_dead_and_released(76);
  CHECK(says(frozen.run.err(), "dblock stopped the job itself"));
}

}  // namespace
}  // namespace dblock::test
