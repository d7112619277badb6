// The commands of hooks: started beside dblock, bounded in time, and ended with all that they start.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "app/run/hooks.hpp"
#include "app/words/describe.hpp"
#include "child.hpp"
#include "process/hooks.hpp"
#include "process/supervisor.hpp"
#include "process/tree.hpp"
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

namespace {

// The variables of dblock that each hook of a run was told, sorted, by event. `tell` makes the events happen.
struct HooksOfRun {
  using Variables = std::vector<std::string>;

  HooksOfRun() : wanted{.key = *lease::Key::parse("k"), .owner = {"us"}, .terms = {}, .holder = {}} {
    wanted.further_keys = {*lease::Key::parse("l")};
  }
  [[nodiscard]] bool tell(const std::function<void(app::RunHooks&)>& events) const {
    const std::string file = stage.file("$DBLOCK_EVENT");
    const std::string command = "env -0 >" + file + ".new; mv " + file + ".new " + file;
    return stage.in_child([&] {
      // An outer run's, and an outer hook's.
      for (const auto* const name :
           {"DBLOCK_KEY", "DBLOCK_OWNER", "DBLOCK_TOKEN", "DBLOCK_SLOT", "DBLOCK_HELD", "DBLOCK_EVENT",
            "DBLOCK_MESSAGE", "DBLOCK_CONFLICT_KEY", "DBLOCK_CONFLICT_HOLDER", "DBLOCK_CONFLICT_NOTE",
            "DBLOCK_OUTCOME", "DBLOCK_EXIT_CODE", "DBLOCK_FAILURES"})
        ::setenv(name, "outer", 1);
      const auto hooks =
          app::RunHooks::prepare({command, command, command, command, command, command}, wanted);
      if (!hooks) return false;
      events(**hooks);
      return true;
    });
  }
  [[nodiscard]] Variables told(const std::string& event) const {
    Variables found;
    if (!until([&] { return !stage.text(event).empty(); })) return found;
    std::istringstream all(stage.text(event));
    for (std::string entry; std::getline(all, entry, '\0');) {
      if (entry.starts_with("DBLOCK_") && !entry.starts_with("DBLOCK_TEST_")) found.push_back(entry);
    }
    std::ranges::sort(found);
    return found;
  }

  Stage stage{};
  lease::LeaseRequest wanted;
};

lease::LockStatus held_by(const std::string& user, const std::string& note) {
  lease::LockStatus status;
  status.key = "l";
  status.state = lease::State::held;
  status.owner = "them";
  status.holder = {"web1", 7, user, "job", note};
  return status;
}

}  // namespace

TEST_CASE("each hook of a run is told these variables, and no others of dblock's") {
  const HooksOfRun run;
  lease::Lease lease = lease::granted(run.wanted, lease::Token{42}, 0, BootTime{}).lease;
  lease.slot = 3;
  const auto holder = held_by("alice", "by hand");
  REQUIRE(run.tell([&](app::RunHooks& hooks) {
    hooks.waiting(holder);
    hooks.conflict(holder, "given up");
    hooks.job_started(lease);
    hooks.lost(lease, "gone");
    hooks.overdue(lease, "late");
    hooks.ended(lease, {.how = app::Ending::How::job_exited, .number = 3}, 2, "failed");
  }));
  using Variables = HooksOfRun::Variables;
  const std::string message = "DBLOCK_MESSAGE=";
  const Variables asked{"DBLOCK_CONFLICT_HOLDER=alice@web1:7", "DBLOCK_CONFLICT_KEY=l",
                        "DBLOCK_CONFLICT_NOTE=by hand"};
  const auto with = [](Variables variables, const Variables& more) {
    variables.insert(variables.end(), more.begin(), more.end());
    std::ranges::sort(variables);
    return variables;
  };
  CHECK(run.told("wait") == with(asked, {"DBLOCK_EVENT=wait", "DBLOCK_KEY=k\nl",
                                         message + app::describe_conflict(holder), "DBLOCK_OWNER=us\nus"}));
  CHECK(run.told("conflict") == with(asked, {"DBLOCK_EVENT=conflict", "DBLOCK_KEY=k\nl", message + "given up",
                                             "DBLOCK_OWNER=us\nus"}));
  const Variables had{"DBLOCK_KEY=k\nl", "DBLOCK_OWNER=us\nus", "DBLOCK_SLOT=3", "DBLOCK_TOKEN=42\n42"};
  CHECK(run.told("start") ==
        with(had, {"DBLOCK_EVENT=start", message + "the job under locks \"k\", \"l\" has started"}));
  CHECK(run.told("lost") == with(had, {"DBLOCK_EVENT=lost", message + "gone"}));
  CHECK(run.told("overdue") == with(had, {"DBLOCK_EVENT=overdue", message + "late"}));
  CHECK(run.told("end") == with(had, {"DBLOCK_EVENT=end", message + "failed", "DBLOCK_OUTCOME=failed",
                                      "DBLOCK_EXIT_CODE=3", "DBLOCK_FAILURES=2"}));
}

TEST_CASE("what rows and servers say reaches a hook escaped, in each variable") {
  const HooksOfRun run;
  // A terminal's title, a line of its own, a right-to-left override, a hidden character, and no UTF-8.
  const std::string hostile = "x\x1b]0;owned\x07\r\nDBLOCK_TOKEN=1\xe2\x80\xae\xe2\x80\x8b\xff";
  auto holder = held_by(hostile, hostile);
  holder.key = holder.owner = holder.holder.host = holder.holder.command = hostile;
  REQUIRE(run.tell([&](app::RunHooks& hooks) {
    hooks.waiting(holder);
    hooks.conflict(holder, hostile);
    hooks.lost(std::nullopt, hostile);
    hooks.ended(std::nullopt, {.how = app::Ending::How::failed}, std::nullopt, hostile);
  }));
  for (const auto& [event, quoting] : {std::pair{"wait", 4}, {"conflict", 4}, {"lost", 1}, {"end", 1}}) {
    CAPTURE(event);
    int escaped = 0;
    for (const auto& variable : run.told(event)) {
      CAPTURE(variable);
      if (variable.find("owned") == std::string::npos) continue;
      ++escaped;
      CHECK_THAT(variable,
                 Catch::Contains("x\\x1b]0;owned\\x07\\x0d\\x0aDBLOCK_TOKEN=1\\u{202e}\\u{200b}\\xff"));
      for (const auto* const raw : {"\x1b", "\x07", "\r", "\n", "\xe2\x80\xae", "\xe2\x80\x8b", "\xff"})
        CHECK(variable.find(raw) == std::string::npos);
    }
    CHECK(escaped == quoting);
  }
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
