// What somebody who waits at a terminal sees: one line that ticks, and of which nothing remains.
#include <algorithm>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/line.hpp"
#include "support/privilege.hpp"
#include "support/proxy.hpp"
#include "support/pty.hpp"
#include "support/shown.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

constexpr const char* k_clear = "\r\x1b[K";
constexpr const char* k_drawn = "\r\x1b[Kdblock: waiting ";

// What is on the screen in the end.
Words displayed(const std::string& written) {
  Words rows = Shown(written).rows;
  while (!rows.empty() && rows.back().empty()) rows.pop_back();
  return rows;
}

// A lock "k" held by a job that ends when told, and a terminal where somebody waits for it.
class Watched : public LineBefore<Database> {
 public:
  Watched() : LineBefore({}) {}

  [[nodiscard]] Words waiting(const Words& options = {}, const Words& command = {"echo", "job's output"}) {
    return dblock_words(run_words("k", with({"--wait", "1h", "--warn-after", "1h"}, options), command));
  }
  [[nodiscard]] Words env(const std::string& term = "xterm") {
    return {"DBLOCK_DB=" + database().url(), "TERM=" + term};
  }
  // A waiter who comes now draws its line, and again when it has waited for as long as `until` says: who was
  // there before has had the same time to draw.
  void see_a_later_waiter_draw(const std::string& until = "") {
    Terminal later(waiting({}, {"true"}), env());
    REQUIRE(later.shows(k_drawn + until));
  }
};

TEST_CASE("a waiter at a terminal sees one line that ticks and is gone before the job's output",
          "[tsan][asan-server]") {
  Watched lock;
  Terminal terminal(lock.waiting(), lock.env());
  REQUIRE(terminal.shows(k_drawn));
  REQUIRE(terminal.shows(", 1st of 1, for \"k\": held "));
  REQUIRE(terminal.shows(", expires in "));
  for (const char* const seconds : {"1s", "2s", "3s"}) CHECK(terminal.shows(k_drawn + std::string(seconds)));
  CHECK(displayed(terminal.screen()).size() == 1);
  lock.release();
  CHECK(terminal.wait() == exited(0));
  CHECK(displayed(terminal.screen()) == Words{"job's output"});
}

TEST_CASE("Ctrl-C at the live line ends the wait and leaves nothing", "[tsan]") {
  Watched lock;
  Terminal terminal(lock.waiting(), lock.env());
  REQUIRE(terminal.shows(k_drawn));
  terminal.send(k_ctrl_c);
  CHECK(terminal.wait() == killed_by(SIGINT));
  CHECK(terminal.tree().empty());
  const Words rows = displayed(terminal.screen());
  INFO(terminal.screen());
  REQUIRE(rows.size() == 1);
  CHECK_THAT(rows[0], Catch::StartsWith(
                          "dblock: exit 130 (signal): stopped by SIGINT from the terminal while waiting"));
}

TEST_CASE("a wait that ends without the lock leaves only its exit line") {
  Watched lock;
  Terminal terminal(lock.waiting({"--wait", "1500ms"}), lock.env());
  CHECK(terminal.wait() == exited(75));
  CHECK(count_of(terminal.screen(), k_drawn) >= 2);
  const Words rows = displayed(terminal.screen());
  REQUIRE(rows.size() == 1);
  CHECK_THAT(rows[0], Catch::StartsWith("dblock: exit 75 (held): "));
}

TEST_CASE("acquire shows the live line too, and prints the owner id alone") {
  Watched lock;
  Terminal terminal(
      {dblock_binary(), "acquire", "--key", "k", "--ttl", "60s", "--wait", "120s", "--warn-after", "1h"},
      lock.env());
  REQUIRE(terminal.shows(k_drawn + std::string("1s")));
  lock.release();
  CHECK(terminal.wait() == exited(0));
  CHECK(displayed(terminal.screen()) == Words{lock.database().column("k", "lock_value")});
}

TEST_CASE("where a live line is not wanted or cannot be shown there are the plain lines") {
  struct Case {
    Words options;
    std::string term;
    bool plain_line;
  };
  const std::vector<Case> cases{{{}, "dumb", true},
                                {{}, "", true},
                                {{"--quiet"}, "xterm", false},
                                {{"--log-format", "json"}, "xterm", true}};
  for (const auto& [options, term, plain_line] : cases) {
    Watched lock;
    Terminal terminal(lock.waiting(options), lock.env(term));
    if (plain_line) {
      CHECK(terminal.shows("waiting: lock "));
    } else {
      lock.see_a_later_waiter_draw();
      CHECK_FALSE(terminal.shows("waiting", 100ms));
    }
    lock.release();
    CHECK(terminal.wait() == exited(0));
    CHECK_FALSE(says(terminal.screen(), k_clear));
    CHECK(displayed(terminal.screen()).size() == (plain_line ? 2 : 1));
  }
}

TEST_CASE("stdout may go elsewhere, but stderr must be the terminal") {
  Watched lock;
  const auto script = [&](const std::string& redirection) {
    return sh("exec " + dblock_binary() + " run --wait 60s --key k -- true " + redirection);
  };
  Terminal shown(script(">/dev/null"), lock.env());
  Terminal piped(script("2>&1 | cat"), lock.env());
  CHECK(shown.shows(k_drawn));
  lock.see_a_later_waiter_draw();
  CHECK_FALSE(piped.shows(k_clear, 100ms));
  lock.release();
  CHECK(shown.wait() == exited(0));
  CHECK(piped.wait() == exited(0));
  CHECK(piped.screen().empty());
}

TEST_CASE("a waiter behind another one is told its place") {
  Watched lock;
  Terminal first(lock.waiting({}, {"true"}), lock.env());
  REQUIRE(first.shows(", 1st of 1, "));
  Terminal second(lock.waiting({}, {"true"}), lock.env());
  CHECK(second.shows(", 2nd of 2, "));
  lock.release();
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
}

// A script's lease has no process behind whose end a waiter could sleep.
TEST_CASE(
    "a waiter for a lock that a script has taken is told its place, and when somebody has left before it",
    "[other-servers]") {
  const Database database;
  const std::string owner = take(database);
  const Words waits = dblock_words(run_words("k", {"--wait", "60s"}, {"true"}));
  const Words env{"DBLOCK_DB=" + database.url(), "TERM=xterm"};
  Terminal first(waits, env);
  REQUIRE(first.shows(", 1st of 1, "));
  Terminal second(waits, env);
  REQUIRE(second.shows(", 2nd of 2, "));
  first.send(k_ctrl_c);
  CHECK(first.wait() == killed_by(SIGINT));
  CHECK(second.shows(", 1st of 1, "));
  release_lease(database, owner);
  CHECK(second.wait() == exited(0));
}

TEST_CASE("a reader that waits behind a writer is told that others come first") {
  const Database database;
  LiveRun reader(database, {"--shared"});
  Process writer = waiting_run(database);
  Terminal later(dblock_words(run_words("k", {"--shared", "--wait", "60s"}, {"true"})),
                 {"DBLOCK_DB=" + database.url(), "TERM=xterm"});
  REQUIRE(later.shows(", 2nd of 2, "));
  CHECK(later.shows("others come first"));
  writer.signal(SIGTERM);
  CHECK(writer.wait() == killed_by(SIGTERM));
  CHECK(later.wait() == exited(0));
  CHECK(reader.end() == exited(0));
}

TEST_CASE("a line about trouble in between is not mangled, and the live line goes on below it",
          "[server][asan-server]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  const std::string owner = take(database);
  Terminal terminal(
      {dblock_binary(), "run", "--wait", "60s", "--warn-after", "1h", "--key", "k", "--", "echo", "over"},
      {"DBLOCK_DB=" + proxy.url(database.name()), "TERM=xterm"});
  REQUIRE(terminal.shows(k_drawn));
  proxy.refuse(true);
  proxy.cut_all();
  REQUIRE(terminal.shows("; trying again\r\ndblock: waiting "));
  proxy.refuse(false);
  REQUIRE(terminal.shows(k_drawn));
  const Words rows = displayed(terminal.screen());
  REQUIRE(rows.size() == 2);
  CHECK_THAT(rows[0], Catch::StartsWith("dblock: warning: ") && Catch::EndsWith("; trying again"));
  CHECK_THAT(rows[1], Catch::StartsWith("dblock: waiting "));
  release_lease(database, owner);
  CHECK(terminal.wait() == exited(0));
  CHECK(displayed(terminal.screen()) == Words{rows[0], "over"});
}

TEST_CASE("Ctrl-C at the live line leaves no session on the server", "[server][other-servers]") {
  LineBefore<ServerDatabase> line({});
  Terminal terminal({dblock_binary(), "run", "--wait", "60s", "--key", "k", "--", "true"},
                    {"DBLOCK_DB=" + line.database().url(), "TERM=xterm"});
  REQUIRE(terminal.shows(k_drawn));
  REQUIRE(wait_until([&] { return line.database().sessions().size() == 2; }));
  terminal.send(k_ctrl_c);
  CHECK(terminal.wait() == killed_by(SIGINT));
  CHECK(wait_until([&] { return line.database().sessions().size() == 1; }));
  line.release();
}

TEST_CASE("in a narrow terminal the live line keeps to one row", "[asan-local]") {
  Watched lock;
  constexpr std::size_t k_columns = 34;
  Terminal terminal(lock.waiting(), lock.env(), k_columns);
  REQUIRE(terminal.shows(k_drawn + std::string("2s")));
  const Words rows = displayed(terminal.screen());
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].size() == k_columns - 1 + std::string("…").size() - 1);
  CHECK_THAT(rows[0], Catch::StartsWith("dblock: waiting 2s") && Catch::EndsWith("…"));
  lock.release();
  CHECK(terminal.wait() == exited(0));
  CHECK(displayed(terminal.screen()) == Words{"job's output"});
}

TEST_CASE("hostile text in the row does nothing to the terminal", "[asan-local]") {
  Watched lock;
  lock.database().set_text("k", "holder_user", "\x1b]0;title\x07\nme");
  Terminal terminal(lock.waiting(), lock.env());
  REQUIRE(terminal.shows("\\x1b]0;title\\x07\\x0ame@"));
  lock.release();
  CHECK(terminal.wait() == exited(0));
  CHECK(displayed(terminal.screen()) == Words{"job's output"});
}

// `tostop` stops background processes that write to the terminal.
TEST_CASE("a waiter in the background does not draw and is not stopped, and draws in the foreground") {
  Database database;
  // The head of the line asks often what nobody will tell it, so that it is soon to notice.
  const std::string owner = take(database);
  const Words env{"DBLOCK_DB=" + database.url()};
  Terminal terminal(interactive_bash(), env);
  REQUIRE(terminal.shows("ready> "));
  terminal.send("stty tostop\n");
  terminal.send("TERM=xterm " + dblock_binary() +
                " run --wait 120s --key k -- sh -c 'echo fini\"\"shed' &\n");
  REQUIRE(terminal.shows("dblock: waiting: lock "));
  {  // as long as it takes a later waiter at a terminal of its own to draw, and to draw again
    Terminal later({dblock_binary(), "run", "--wait", "120s", "--key", "k", "--", "true"},
                   {env.front(), "TERM=xterm"});
    REQUIRE(later.shows(k_drawn + std::string("1s")));
  }
  CHECK_FALSE(terminal.shows(k_clear, 100ms));
  for (const pid_t pid : terminal.tree()) CHECK(proc_info(pid).state != 'T');
  terminal.send("stty -tostop; fg\n");
  REQUIRE(terminal.shows(k_drawn));
  release_lease(database, owner);
  CHECK(terminal.shows("finished"));
}

TEST_CASE("a stopped terminal does not hold up the wait", "[tsan][asan-local]") {
  Watched lock;
  Terminal terminal(lock.waiting({}, {"touch", lock.file("ran")}), lock.env());
  REQUIRE(terminal.shows(k_drawn));
  terminal.send(k_ctrl_s);
  // What is on its way when the terminal stops still comes; the line would come each second.
  for (int drawn = 0; terminal.shows(k_drawn, 1500ms); ++drawn) REQUIRE(drawn < 10);
  lock.release();
  CHECK(terminal.wait() == exited(0));
  CHECK(std::filesystem::exists(lock.file("ran")));
  CHECK(terminal.tree().empty());
}

TEST_CASE("on another user's terminal, as after su, the live line is shown by /dev/tty", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  Process holder(home.spawn(run_words("k", {"--local"}, sh("touch up; exec sleep 600"))));
  await_file(holder, home.file("up"));
  const Words as_user{"setpriv", "--reuid=" + std::to_string(home.user()),
                      "--regid=" + std::to_string(home.user()), "--clear-groups"};
  const auto waiter = home.spawn(run_words("k", {"--local", "--wait", "1h"}, {"true"}));
  Terminal terminal(with(as_user, waiter.argv), {"TERM=xterm"});
  REQUIRE(terminal.shows(k_drawn));
  CHECK(terminal.shows(", for \"k\": held "));
  terminal.send(k_ctrl_c);
  CHECK(terminal.wait() == killed_by(SIGINT));
}

TEST_CASE("a terminal that is gone kills no waiter that ignores HUP") {
  Watched lock;
  const Words words = lock.waiting({}, sh("echo ran >" + lock.file("ran")));
  Terminal terminal(with(sh("trap '' HUP; exec \"$0\" \"$@\""), words), lock.env());
  REQUIRE(terminal.shows(k_drawn));
  terminal.hang_up();
  lock.release();
  CHECK(terminal.wait() == exited(0));
  CHECK(read_file(lock.file("ran")) == "ran\n");
}

}  // namespace
}  // namespace dblock::test
