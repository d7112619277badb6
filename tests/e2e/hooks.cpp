// run --on-wait, --on-start, --on-lost, --on-conflict, --on-overdue, --on-end: commands that are told of a
// run's events and hold nothing up.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/fake_server.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/pty.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

std::string hold_by_hand(const Database& database, const std::string& key = "k") {
  return take(database, key, {"--ttl", "100s", "--note", "by hand"});
}

// Writes what the hook is told to FILE.
std::string note_in(const std::string& file) {
  return print_into(file, "env");
}

// One line a start.
std::string count_in(const std::string& file) {
  return "echo started >>" + file;
}

bool told(const std::string& file, const std::string& entry) {
  return says("\n" + read_file(file), "\n" + entry);
}

bool appears(const std::string& file) {
  return wait_until([&] { return std::filesystem::exists(file); });
}

// Writes its pid to FILE and does not end by itself; holds no pipe of dblock's caller.
std::string hang_in(const std::string& file) {
  return "echo $$ >" + file + "; exec sleep 600 2>/dev/null >&2";
}

bool no_hooks_process(const std::vector<pid_t>& tree) {
  return named("dblock-hooks", tree).empty();
}

TEST_CASE("the wait hook starts once, when a wait for a held lock begins, and is told of the holder") {
  Database database;
  const TempDir directory;
  const std::string owner = hold_by_hand(database);
  Process waiter(dblock_spawn(
      database, run_words("k",
                          {"--wait", "60s", "--on-wait",
                           count_in(directory.file("count")) + "; " + note_in(directory.file("told"))},
                          {"sh", "-c", "echo $DBLOCK_OWNER"})));
  REQUIRE(appears(directory.file("told")));
  CHECK(waiter.running());
  CHECK(told(directory.file("told"), "DBLOCK_EVENT=wait\n"));
  CHECK(told(directory.file("told"), "DBLOCK_KEY=k\n"));
  CHECK(told(directory.file("told"), "DBLOCK_CONFLICT_KEY=k\n"));
  CHECK(told(directory.file("told"), "DBLOCK_CONFLICT_HOLDER="));
  CHECK(told(directory.file("told"), "DBLOCK_CONFLICT_NOTE=by hand\n"));
  CHECK(told(directory.file("told"), "DBLOCK_MESSAGE=lock \"k\" is held by "));
  CHECK_FALSE(told(directory.file("told"), "DBLOCK_TOKEN="));
  {  // As long as a later waiter takes to draw, and to draw again: some more looks of the first in line.
    Terminal later(dblock_words(run_words("k", {"--wait", "60s"}, {"true"})),
                   {"DBLOCK_DB=" + database.url(), "TERM=xterm"});
    REQUIRE(later.shows("dblock: waiting 1s"));
  }
  release_lease(database, owner);
  CHECK(waiter.wait() == exited(0));
  CHECK(told(directory.file("told"), "DBLOCK_OWNER=" + waiter.out()));
  CHECK(soon_gone(waiter));
  CHECK(read_file(directory.file("count")) == "started\n");
}

TEST_CASE("a lock granted at once starts no hook, and a run without hooks has no process for them") {
  Database database;
  const TempDir directory;
  const Words hooks{"--on-wait",     count_in(directory.file("count")),
                    "--on-lost",     count_in(directory.file("count")),
                    "--on-conflict", count_in(directory.file("count"))};
  LiveRun hooked(database, with(hooks, {"--wait", "60s"}));
  CHECK_FALSE(no_hooks_process(hooked.tree()));
  CHECK(no_hooks_process(descendants_of(hooked.pid())));
  CHECK(hooked.end() == exited(0));
  CHECK(soon_gone(hooked));
  CHECK_FALSE(std::filesystem::exists(directory.file("count")));
  CHECK(hooked.err().empty());

  LiveRun without(database);
  CHECK(no_hooks_process(without.tree()));
}

TEST_CASE("the start hook starts once, while the job runs, and is told of the lease", "[asan-local]") {
  Database database;
  for (const Words& more : {Words{"--wait", "60s"}, Words{"--key", "l"}, Words{"--slots", "2"}}) {
    INFO(more.front());
    const TempDir directory;
    LiveRun run(database, with(more, {"--on-start", count_in(directory.file("count")) + "; " +
                                                        note_in(directory.file("told"))}));
    REQUIRE(appears(directory.file("told")));
    CHECK(run.running());
    const std::string keys = more.front() == "--key" ? "k\nl\n" : "k\n";
    CHECK(told(directory.file("told"), "DBLOCK_EVENT=start\n"));
    CHECK(told(directory.file("told"), "DBLOCK_KEY=" + keys));
    CHECK(told(directory.file("told"), "DBLOCK_OWNER="));
    CHECK(told(directory.file("told"), "DBLOCK_TOKEN="));
    CHECK(told(directory.file("told"), "DBLOCK_SLOT=1\n") == (more.front() == "--slots"));
    CHECK(told(directory.file("told"), "DBLOCK_MESSAGE=the job under lock"));
    CHECK_FALSE(told(directory.file("told"), "DBLOCK_HELD="));
    CHECK(run.end() == exited(0));
    CHECK(soon_gone(run));
    CHECK(read_file(directory.file("count")) == "started\n");
  }
}

TEST_CASE("the start hook starts for the shortest job too, and for a nested run its own") {
  Database database;
  const TempDir directory;
  const Words hook{"--on-start", "echo \"$DBLOCK_OWNER\" >>" + directory.file("owners")};
  Process outer(dblock_spawn(
      database, run_words("k", hook, with(Words{dblock_binary()}, run_words("k", hook, {"true"})))));
  CHECK(outer.wait() == exited(0));
  CHECK(soon_gone(outer));
  const Words owners = lines(read_file(directory.file("owners")));
  REQUIRE(owners.size() == 2);
  CHECK(owners.front() != owners.back());
}

TEST_CASE("the start hook does not start for a job that was not started, or is another host's") {
  Database database;
  const TempDir directory;
  const std::string file = directory.file("started");
  const std::string broken = directory.file("broken");
  write_file(broken, "#!/no/such/interpreter\n");
  std::filesystem::permissions(broken, std::filesystem::perms::owner_all);
  const auto ends = [&](const Words& options, const Words& job) {
    Process run(dblock_spawn(database, run_words("k", with(options, {"--on-start", count_in(file)}), job)));
    const Exit exit = run.wait();
    CHECK(soon_gone(run));
    return exit;
  };
  CHECK(ends({}, {broken}) == exited(126));
  CHECK(ends({}, {"no-such-program"}) == exited(127));
  hold_by_hand(database);
  CHECK(ends({}, {"true"}) == exited(75));
  CHECK(ends({"--wait", "300ms"}, {"true"}) == exited(75));
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("a start hook that hangs delays neither the job nor the end of the run") {
  Database database;
  const TempDir directory;
  LiveRun run(database, {"--on-start", hang_in(directory.file("hook"))});
  REQUIRE(wait_until([&] { return pid_in(directory.file("hook")) > 0; }));
  CHECK(run.end(4) == exited(4));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(alive(pid_in(directory.file("hook"))));
}

TEST_CASE("the conflict hook starts when a run gives up on a held lock, whatever the exit code then is") {
  Database database;
  const TempDir directory;
  hold_by_hand(database);
  for (const std::string code : {"75", "0", "9"}) {
    INFO("-E " << code);
    Process process(dblock_spawn(
        database,
        run_words("k", {"-E", code, "--on-conflict", note_in(directory.file("told" + code))}, {"true"})));
    CHECK(process.wait() == exited(std::stoi(code)));
    if (code == "0") CHECK(process.err().empty());
    REQUIRE(appears(directory.file("told" + code)));
    CHECK(told(directory.file("told" + code), "DBLOCK_EVENT=conflict\n"));
    CHECK(told(directory.file("told" + code), "DBLOCK_KEY=k\n"));
    CHECK(told(directory.file("told" + code), "DBLOCK_MESSAGE=lock \"k\" is held by "));
  }
}

TEST_CASE("names and a note that others have written reach the hooks for waiting, conflict and end escaped") {
  Database database;
  const TempDir directory;
  hold_by_hand(database);
  const std::string hostile = "x\x1b]0;owned\x07\r\nDBLOCK_TOKEN=1\u202e\u200b";
  for (const char* column : {"holder_note", "holder_host", "holder_user", "holder_command", "lock_value"})
    database.set_text("k", column, hostile);
  Words options{"--wait", "700ms"};
  for (const std::string event : {"wait", "conflict", "end"})
    options = with(options, {"--on-" + event, note_in(directory.file(event))});
  Process process(dblock_spawn(database, run_words("k", options, {"true"})));
  check_ends(process, 75);
  const std::string shown = "x\\x1b]0;owned\\x07\\x0d\\x0aDBLOCK_TOKEN=1\\u{202e}\\u{200b}";
  for (const auto& [event, more] : {std::pair{"wait", true}, {"conflict", true}, {"end", false}}) {
    const std::string file = directory.file(event);
    REQUIRE(appears(file));
    INFO(event << ":\n" << read_file(file));
    CHECK(told(file, "DBLOCK_MESSAGE=lock \"k\" is held by " + shown + "@" + shown));
    CHECK(says(read_file(file), ", note: " + shown));
    CHECK(told(file, "DBLOCK_CONFLICT_HOLDER=" + shown + "@" + shown) == more);
    CHECK(told(file, "DBLOCK_CONFLICT_NOTE=" + shown + "\n") == more);
    for (const char* raw : {"\x1b", "\x07", "\r", "\nDBLOCK_TOKEN", "\u202e", "\u200b"})
      CHECK_FALSE(says(read_file(file), raw));
  }
}

TEST_CASE("what a server says before it is known reaches hook, status file, report and log escaped",
          "[server][asan-server]") {
  const TempDir directory;
  FakeServer rogue([](Wire& wire) {
    wire.send("\xff\x15\x04#28000x\x1b]0;owned\x07\r\nDBLOCK_TOKEN=1\u202e\u200b");
    static_cast<void>(wire.receive());
  });
  const Words options{"--on-end", note_in(directory.file("told")), "--status-file", directory.file("status")};
  Process run(dblock_spawn_at(rogue.url(), run_words("k", options, {"true"})));
  CHECK(run.wait() == exited(77));
  REQUIRE(appears(directory.file("told")));
  const auto examined = dblock_at(rogue.url(), {"doctor", "--json"});
  const auto logged = dblock_at(rogue.url(), {"--log-format", "json", "inspect"});
  rogue.stop();
  using nlohmann::json;
  const auto message_of = [](const json& document) { return document.at("message").get<std::string>(); };
  const std::string told = read_file(directory.file("told"));
  for (const std::string& words :
       {told, run.err(), message_of(json::parse(read_file(directory.file("status")))),
        message_of(json::parse(examined.out).at("checks").back()), message_of(json::parse(logged.err))}) {
    INFO(words);
    CHECK(says(words, "x\\x1b]0;owned\\x07\\x0d\\x0aDBLOCK_TOKEN=1\\u{202e}\\u{200b}"));
    for (const char* raw : {"\x1b", "\x07", "\r", "\nDBLOCK_TOKEN", "\u202e", "\u200b"})
      CHECK_FALSE(says(words, raw));
  }
}

// Runs with --on-end, and checks what the hook is told.
void check_told_end(const Database& database, const Words& options, const Words& command, const Exit& exit,
                    const std::string& outcome, int code, const std::string& message) {
  const TempDir directory;
  INFO(outcome);
  Process process(dblock_spawn(
      database, run_words("k", with(options, {"--on-end", note_in(directory.file("told"))}), command)));
  CHECK(process.wait() == exit);
  REQUIRE(appears(directory.file("told")));
  INFO(read_file(directory.file("told")));
  CHECK(told(directory.file("told"), "DBLOCK_EVENT=end\n"));
  CHECK(told(directory.file("told"), "DBLOCK_KEY=k\n"));
  CHECK(told(directory.file("told"), "DBLOCK_OUTCOME=" + outcome + "\n"));
  CHECK(told(directory.file("told"), "DBLOCK_EXIT_CODE=" + std::to_string(code) + "\n"));
  CHECK(told(directory.file("told"), "DBLOCK_MESSAGE=" + message));
  CHECK_FALSE(told(directory.file("told"), "DBLOCK_HELD="));
}

TEST_CASE("the end hook is told how many runs of the key have failed in a row, by now") {
  Database database;
  const TempDir directory;
  const std::string count = "echo \"$DBLOCK_OUTCOME ${DBLOCK_FAILURES-none}\" >";
  int number = 0;
  const auto told_by = [&](const Words& options, const Words& command) {
    const std::string file = directory.file(std::to_string(number++));
    const Words hook{"--on-end", count + file + ".new; mv " + file + ".new " + file};
    Process process(dblock_spawn(database, run_words("k", with(options, hook), command)));
    process.wait();
    REQUIRE(appears(file));
    return read_file(file);
  };
  CHECK(told_by({}, {"false"}) == "failed 1\n");
  CHECK(told_by({}, sh("kill -KILL $$")) == "signalled 2\n");
  CHECK(told_by({"--max-runtime", "100ms"}, {"sleep", "600"}) == "timed_out 3\n");
  CHECK(told_by({"--slots", "2"}, {"false"}) == "failed 1\n");  // the first run in that slot
  CHECK(told_by({}, {"true"}) == "succeeded 0\n");
  CHECK(told_by({}, {"no-such-program"}) == "error none\n");
  hold_by_hand(database);
  CHECK(told_by({}, {"true"}) == "held none\n");
}

TEST_CASE("the end hook is told the outcome and the exit code of every run", "[asan-local]") {
  Database database;
  const TempDir directory;
  const std::string job = "the job under lock \"k\" ";
  check_told_end(database, {}, {"true"}, exited(0), "succeeded", 0, job + "has succeeded\n");
  check_told_end(database, {}, sh("exit 3"), exited(3), "failed", 3, job + "failed with exit status 3\n");
  check_told_end(database, {}, sh("kill -KILL $$"), killed_by(SIGKILL), "signalled", 128 + SIGKILL,
                 job + "was killed by SIGKILL\n");
  check_told_end(database, {"--max-runtime", "100ms"}, {"sleep", "600"}, exited(124), "timed_out", 124,
                 "the job ran longer than --max-runtime 100ms");
  check_told_end(database, {"--once-per", "1h"}, {"false"}, exited(0), "skipped", 0, "the job under key");
  check_told_end(database, {}, {"no-such-program"}, exited(127), "error", 127, "");
  check_told_end(database, {"--db", "mysql://u@h"}, {"true"}, exited(78), "error", 78, "");
  check_told_end(database, {"--status-file", directory.path()}, {"true"}, exited(78), "error", 78,
                 "cannot write the status file");
  hold_by_hand(database);
  check_told_end(database, {}, {"true"}, exited(75), "held", 75, "lock \"k\" is held by ");
  check_told_end(database, {"-E", "0"}, {"true"}, exited(0), "held", 0, "lock \"k\" is held by ");
}

TEST_CASE("the end hook is told of the lease, and finds the lock released and the status file written") {
  Database database;
  const TempDir directory;
  const std::string look = "{ cat " + directory.file("status") + "; " + dblock_binary() +
                           " run -k k echo released; echo token $DBLOCK_TOKEN owner $DBLOCK_OWNER; }";
  Process process(dblock_spawn(database, run_words("k",
                                                   {"--status-file", directory.file("status"), "--on-end",
                                                    print_into(directory.file("seen"), look)},
                                                   sh("echo token $DBLOCK_TOKEN owner $DBLOCK_OWNER"))));
  CHECK(process.wait() == exited(0));
  REQUIRE(appears(directory.file("seen")));
  const std::string seen = read_file(directory.file("seen"));
  INFO(seen);
  CHECK(says(seen, "\"outcome\": \"succeeded\""));
  CHECK(says(seen, "\nreleased\n"));
  CHECK(seen.ends_with("\n" + process.out()));
}

// A run that has waited, with its --on-wait in the file `wait` and this hook more, until TERM has ended it.
Process stopped_while_waiting(const Database& database, const TempDir& directory, const Words& hook) {
  hold_by_hand(database);
  Process waiter(dblock_spawn(
      database, run_words("k", with({"--wait", "60s", "--on-wait", count_in(directory.file("wait"))}, hook),
                          {"true"})));
  REQUIRE(appears(directory.file("wait")));
  waiter.signal(SIGTERM);
  CHECK(waiter.wait() == killed_by(SIGTERM));
  return waiter;
}

TEST_CASE("a run that is stopped while it waits starts the end hook, too") {
  Database database;
  const TempDir directory;
  const Process waiter =
      stopped_while_waiting(database, directory, {"--on-end", note_in(directory.file("told"))});
  REQUIRE(appears(directory.file("told")));
  CHECK(told(directory.file("told"), "DBLOCK_OUTCOME=interrupted\n"));
  CHECK(told(directory.file("told"), "DBLOCK_EXIT_CODE=" + std::to_string(128 + SIGTERM) + "\n"));
}

TEST_CASE("a job that takes longer than expected is told of once, without the wait, and goes on",
          "[asan-server]") {
  Database database;
  const TempDir directory;
  const std::string owner = hold_by_hand(database);
  LiveRun run(database,
              {"--wait", "60s", "--on-wait", "sleep 1; " + dblock_binary() + " release -k k --owner " + owner,
               "--expect", "500ms", "--on-overdue",
               count_in(directory.file("count")) + "; " + note_in(directory.file("told")), "--status-file",
               directory.file("status")},
              [&](const TempDir& place) {
                return sh("test -e " + directory.file("count") + " && echo too early; " + until_told(place));
              });
  REQUIRE(appears(directory.file("told")));
  CHECK(run.running());
  CHECK(told(directory.file("told"), "DBLOCK_EVENT=overdue\n"));
  CHECK(told(directory.file("told"),
             "DBLOCK_MESSAGE=the job under lock \"k\" has run for longer than --expect 500ms; it goes on\n"));
  CHECK(told(directory.file("told"), "DBLOCK_TOKEN="));
  CHECK(soon_renewed(database));
  CHECK(run.end() == exited(0));
  CHECK(run.out().empty());
  CHECK(soon_gone(run));
  CHECK(read_file(directory.file("count")) == "started\n");
  CHECK(count_of(run.err(), "dblock: warning: the job under lock \"k\" has run for longer") == 1);
  CHECK(says(read_file(directory.file("status")), "\"overdue\": true"));
}

TEST_CASE("a job that ends in the expected time is told of nowhere") {
  Database database;
  const TempDir directory;
  Process process(dblock_spawn(
      database, run_words("k",
                          {"--expect", "1h", "--on-overdue", count_in(directory.file("count")), "--on-end",
                           note_in(directory.file("ended")), "--status-file", directory.file("status")},
                          {"true"})));
  CHECK(process.wait() == exited(0));
  CHECK(process.err().empty());
  REQUIRE(appears(directory.file("ended")));
  CHECK_FALSE(std::filesystem::exists(directory.file("count")));
  CHECK(says(read_file(directory.file("status")), "\"overdue\": false"));
}

TEST_CASE("a wait that ends without the lock starts the hooks for waiting, conflict and end, each once") {
  Database database;
  const TempDir directory;
  hold_by_hand(database);
  Process process(dblock_spawn(
      database, run_words("k",
                          {"--wait", "700ms", "--on-wait", count_in(directory.file("wait")), "--on-conflict",
                           count_in(directory.file("conflict")), "--on-lost",
                           count_in(directory.file("lost")), "--on-end", count_in(directory.file("end"))},
                          {"true"})));
  CHECK(process.wait() == exited(75));
  CHECK(soon_gone(process));  // and so have all hooks
  for (const auto* const hook : {"wait", "conflict", "end"}) {
    CAPTURE(hook);
    CHECK(read_file(directory.file(hook)) == "started\n");
  }
  CHECK_FALSE(std::filesystem::exists(directory.file("lost")));
}

TEST_CASE("a wait ended by a signal is no conflict") {
  Database database;
  const TempDir directory;
  const Process waiter =
      stopped_while_waiting(database, directory, {"--on-conflict", count_in(directory.file("conflict"))});
  CHECK(soon_gone(waiter));
  CHECK_FALSE(std::filesystem::exists(directory.file("conflict")));
}

TEST_CASE("a hook is told of several keys as a job is, and which of them is in the way") {
  Database database;
  const TempDir directory;
  hold_by_hand(database, "b");
  Process process(dblock_spawn(database, {"run", "-k", "b", "-k", "a", "--on-conflict",
                                          note_in(directory.file("told")), "--", "true"}));
  CHECK(process.wait() == exited(75));
  REQUIRE(appears(directory.file("told")));
  CHECK(told(directory.file("told"), "DBLOCK_KEY=a\nb\n"));
  CHECK(told(directory.file("told"), "DBLOCK_CONFLICT_KEY=b\n"));
}

TEST_CASE("a hook has the caller's directory and stderr, and nothing else of the caller or of dblock",
          "[asan-local]") {
  Database database;
  const TempDir directory;
  hold_by_hand(database);
  const std::string look =
      print_signals() +
      "; pwd -P; readlink /proc/$$/fd/0; ls /proc/$$/fd; cut -d' ' -f6 /proc/$$/stat; echo $$";
  auto spec = dblock_spawn(
      database, run_words("k", {"--on-conflict", "exec >look; " + look + "; mv look seen"}, {"true"}));
  spec.cwd = directory.path();
  spec.ignored_signals = {SIGUSR1, SIGHUP};
  spec.stdin_fd = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const int extra = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  spec.keep_fds = {extra};
  Process process(spec);
  ::close(spec.stdin_fd);
  ::close(extra);
  CHECK(process.wait() == exited(75));
  REQUIRE(appears(directory.file("seen")));
  CHECK(process.out().empty());
  const auto seen = lines(read_file(directory.file("seen")));
  INFO(read_file(directory.file("seen")));
  REQUIRE(seen.size() == 9);
  CHECK(seen[0] == "SigBlk:\t0000000000000000");
  CHECK(seen[1] == "SigIgn:\t0000000000000000");
  CHECK(seen[2] == directory.path());
  CHECK(seen[3] == "/dev/null");
  CHECK(Words(seen.begin() + 4, seen.begin() + 7) == Words{"0", "1", "2"});
  CHECK(seen[7] == seen[8]);  // the leader of a session of its own
}

TEST_CASE("what a hook writes goes to stderr, and its failure is one warning that changes no exit code") {
  Database database;
  const std::string owner = hold_by_hand(database);
  Process process(dblock_spawn(
      database, run_words("k", {"--wait", "60s", "--on-wait", "echo said; exit 5"}, {"echo", "result"})));
  CHECK(soon_says(process, "exit status 5"));
  release_lease(database, owner);
  CHECK(process.wait() == exited(0));
  CHECK(process.out() == "result\n");
  CHECK(says(process.err(), "said\n"));
  CHECK(count_of(process.err(), "warning: ") == 1);
  CHECK(says(process.err(), "dblock: warning: the --on-wait command failed with exit status 5; "));
}

// The password's warning has opened the pipe once more, for dblock alone.
TEST_CASE("a hook's failure is said in a pipe, too, where dblock has said something before", "[server]") {
  ServerDatabase database;
  hold_by_hand(database);
  const std::string user = database.account("IDENTIFIED BY 'secret'") + ":secret";
  const auto finished = run_program({.argv = sh("{ '" + dblock_binary() + "' --db '" + database.url(user) +
                                                "' run -k k --on-conflict 'exit 5' true 2>&1; } | cat")});
  INFO(finished.out);
  CHECK(says(finished.out, "can be seen by every user"));
  CHECK(says(finished.out, "the --on-conflict command failed with exit status 5"));
}

TEST_CASE("a run whose hooks get no process of their own says so and starts nothing", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  DBLOCK_NEEDS(why_no_preload());
  const UsersHome home(54322);  // whose only processes these are
  const Spawn spec = home.spawn(run_words("k", {"--local", "--on-conflict", "true"}, {"touch", "ran"}));
  const auto finished = run_program(after("ulimit -u 2", spec));
  INFO(finished.err);
  CHECK(finished.exit == exited(70));
  CHECK(says(finished.err, "cannot fork dblock-hooks"));
  CHECK_FALSE(std::filesystem::exists(home.file("ran")));
}

TEST_CASE("a hook that hangs delays neither a conflict's exit nor the job and the end of a run",
          "[asan-local]") {
  Database database;
  const TempDir directory;
  const std::string owner = hold_by_hand(database);
  // A hook that dblock had awaited would be dead by now: ended by itself, or killed at its limit.
  const auto still_hangs = [&](const std::string& hook) {
    CHECK(wait_until([&] { return pid_in(directory.file(hook)) > 0; }));
    CHECK(alive(pid_in(directory.file(hook))));
  };
  Process refused(dblock_spawn(
      database, run_words("k", {"--on-conflict", hang_in(directory.file("conflict"))}, {"true"})));
  CHECK(refused.wait() == exited(75));
  still_hangs("conflict");

  Process process(dblock_spawn(
      database, run_words("k", {"--wait", "60s", "--on-wait", hang_in(directory.file("wait"))}, {"true"})));
  REQUIRE(wait_until([&] { return pid_in(directory.file("wait")) > 0; }));
  release_lease(database, owner);
  CHECK(process.wait() == exited(0));
  still_hangs("wait");
  Process ended(
      dblock_spawn(database, run_words("k", {"--on-end", hang_in(directory.file("end"))}, {"true"})));
  CHECK(ended.wait() == exited(0));
  CHECK_FALSE(database.has_holder("k"));
  still_hangs("end");
  // Neither waited for nor stopped as something that the job left.
  CHECK(alive(pid_in(directory.file("wait"))));
  CHECK(process.err().empty());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a closed stderr does not keep a hook from running") {
  Database database;
  const TempDir directory;
  hold_by_hand(database);
  auto spec = dblock_spawn(
      database,
      run_words("k", {"--on-conflict", "echo said && echo worse >&2 && " + note_in(directory.file("told"))},
                {"true"}));
  spec.close_stderr = true;
  Process process(spec);
  CHECK(process.wait() == exited(75));
  CHECK(appears(directory.file("told")));
}

TEST_CASE("hooks come from the environment too, but inside a hook only when they are typed", "[asan-local]") {
  Database database;
  const TempDir directory;
  hold_by_hand(database);
  const std::string again = "DBLOCK_ON_CONFLICT=" + count_in(directory.file("count")) + "; " +
                            dblock_binary() + " run -k k true 2>/dev/null; mv " + directory.file("count") +
                            " " + directory.file("counted");
  Process process(dblock_spawn(database, run_words("k", {}, {"true"}), {again}));
  CHECK(process.wait() == exited(75));
  REQUIRE(appears(directory.file("counted")));
  CHECK(soon_gone(process));
  CHECK(read_file(directory.file("counted")) == "started\n");
  CHECK_FALSE(std::filesystem::exists(directory.file("count")));
}

TEST_CASE("hooks of a nested run are no daemons that the outer job leaves, and are told of no lock of it") {
  Database database;
  const TempDir directory;
  hold_by_hand(database, "inner");
  Process outer(dblock_spawn(
      database, run_words("outer", {"-v"},
                          {dblock_binary(), "run", "-k", "inner", "-E", "3", "--on-wait", "true", "--on-lost",
                           "true", "--on-conflict", note_in(directory.file("told")), "true"})));
  CHECK(outer.wait() == exited(3));
  CHECK_FALSE(says(outer.err(), "dblock-hooks"));
  REQUIRE(appears(directory.file("told")));
  CHECK(told(directory.file("told"), "DBLOCK_KEY=inner\n"));
  CHECK_FALSE(told(directory.file("told"), "DBLOCK_HELD="));
  CHECK_FALSE(told(directory.file("told"), "DBLOCK_TOKEN="));
}

TEST_CASE("on-lost of run takes a command, and a signal's name is told apart") {
  Database database;
  const auto end = dblock(database, run_words("k", {"--on-lost", "USR1"}, {"true"}));
  CHECK(end.exit == exited(64));
  CHECK(says(end.err, "is a signal, as `acquire --lost-signal` takes; for `run` write a command"));
  CHECK(dblock(database, run_words("k", {}, {"true"}), {"DBLOCK_ON_LOST=USR1"}).exit == exited(64));
}

TEST_CASE("a hook that the system lets nobody start is one warning, and the run goes on") {
  DBLOCK_NEEDS(why_no_preload());
  const Database database;
  for (const auto& refused :
       {failing("fork", EAGAIN, "dblock-hooks"), failing("prctl", EINVAL, "dblock-hooks")}) {
    Process run(dblock_spawn(database, run_words("k", {"--on-end", "true"}, {"true"}), refused));
    CHECK(run.wait() == exited(0));
    CHECK(soon_says(run, "; the run does without it\n"));
    CHECK(run.err().starts_with("dblock: warning: the --on-end command could not be started: "));
    CHECK(lines(run.err()).size() == 1);
  }
}

}  // namespace
}  // namespace dblock::test
