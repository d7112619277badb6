// The commands of hooks: started beside dblock, bounded in time, and ended with all that they start.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "child.hpp"
#include "process/guardian/tree.hpp"
#include "process/hooks.hpp"
#include "process/supervisor.hpp"
#include "support/catch.hpp"
#include "temp_directory.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;

// Each case in a process of its own: the starter must not hold the test's descriptors, and nothing the test's
// stderr.
struct Stage {
  [[nodiscard]] std::string file(const std::string& name) const { return directory.file(name); }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream in(file(name));
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }
  [[nodiscard]] pid_t pid(const std::string& name) const { return std::atoi(text(name).c_str()); }

  // Runs `body` in a child whose stderr is the file "err"; true when it returns true.
  [[nodiscard]] bool in_child(const std::function<bool()>& body) const {
    return dblock::in_child([&] {
      const int err = ::open(file("err").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(err, STDERR_FILENO);
      return body();
    });
  }

  TempDirectory directory{};
};

bool until(const std::function<bool()>& condition, Nanos limit = 15s) {
  const BootTime end = BootClock::now() + limit;
  while (!condition()) {
    if (BootClock::now() >= end) return condition();
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

bool gone(pid_t pid) {
  const auto info = process_info(pid);
  return !info || info->state == 'Z';
}

bool start_one(const std::string& command, Nanos limit, const std::vector<std::string>& environment = {}) {
  const auto starter = HookStarter::fork({{"--on-test", command}}, {}, limit);
  if (!starter) return false;
  (*starter)->start(0, environment);
  return true;
}

}  // namespace

TEST_CASE("a hook runs on when its starter's caller has ended, and sees its environment") {
  const Stage stage;
  REQUIRE(stage.in_child([&] {
    return start_one("sleep 0.2; echo \"$WORD\" >" + stage.file("done.new") + "; mv " +
                         stage.file("done.new") + " " + stage.file("done"),
                     20s, {"WORD=two words", std::string("OTHER=x\0WORD=y", 14)});
  }));
  CHECK(until([&] { return stage.text("done") == "two words\n"; }));
  CHECK(stage.text("err").empty());
}

TEST_CASE("a hook that hangs is killed with its daemons when its time is over, and one line says so") {
  CHECK(k_hook_limit == 30s);  // what dblock-run(1) promises
  const Stage stage;
  REQUIRE(stage.in_child([&] {
    return start_one("trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >" + stage.file("daemon") +
                         "; exec sleep 600' & echo $$ >" + stage.file("hook") + "; sleep 600; sleep 600",
                     700ms);
  }));
  REQUIRE(until([&] { return stage.pid("daemon") > 0 && stage.pid("hook") > 0; }));
  CHECK(until([&] { return gone(stage.pid("daemon")) && gone(stage.pid("hook")); }));
  CHECK(until([&] { return !stage.text("err").empty(); }));
  CHECK(stage.text("err") ==
        "dblock: warning: the --on-test command was killed after 700ms with all that it had started; run "
        "work that takes longer as a service\n");
}

TEST_CASE("what a hook leaves behind has the hook's time, not more") {
  const Stage stage;
  REQUIRE(stage.in_child([&] {
    return start_one("(trap '' HUP; echo 1 >" + stage.file("began") + "; exec setsid sleep 600) & echo $! >" +
                         stage.file("daemon"),
                     1500ms);
  }));
  REQUIRE(until([&] { return stage.pid("daemon") > 0 && stage.pid("began") > 0; }));
  CHECK_FALSE(gone(stage.pid("daemon")));
  CHECK(until([&] { return gone(stage.pid("daemon")); }));
}

TEST_CASE("a hook that fails is one warning") {
  const Stage stage;
  REQUIRE(stage.in_child([&] { return start_one("exit 3", 20s); }));
  CHECK(until([&] { return !stage.text("err").empty(); }));
  CHECK_THAT(stage.text("err"),
             Catch::StartsWith("dblock: warning: the --on-test command failed with exit status 3; "));
  const Stage other;
  REQUIRE(other.in_child([&] { return start_one("kill -9 $$", 20s); }));
  CHECK(until([&] { return !other.text("err").empty(); }));
  CHECK_THAT(other.text("err"),
             Catch::StartsWith("dblock: warning: the --on-test command was killed by signal 9; "));
}

TEST_CASE("a hook is no part of the tree that the supervisor stops") {
  const Stage stage;
  REQUIRE(stage.in_child([&] {
    const auto starter =
        HookStarter::fork({{"--on-test", "echo $$ >" + stage.file("hook") + "; exec sleep 600"}}, {}, 3s);
    if (!starter) return false;
    JobSpec spec;
    spec.executable = "/bin/sh";
    spec.argv = {"sh", "-c", "sleep 600"};
    spec.kill_grace = 200ms;
    spec.slack = 4s;
    const auto supervisor = Supervisor::start(spec, false, {});
    if (!supervisor) return false;
    (*supervisor)->set_deadline(BootClock::now() + 5s);
    (*supervisor)->on_loss([&] { (*starter)->start(0, {}); });
    const JobEnd end = (*supervisor)->run_job({}, std::nullopt);
    (*supervisor)->dismiss_guardian();
    return end.stop.reason == Stop::Reason::self_fence && end.tree_dead &&
           until([&] { return stage.pid("hook") > 0; }) && !gone(stage.pid("hook")) &&
           Tree::open()->descendants().size() <= 1;
  }));
  CHECK(until([&] { return gone(stage.pid("hook")); }));
}

}  // namespace dblock::process
