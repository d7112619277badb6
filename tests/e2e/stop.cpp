// Who had a run stopped, and what became of its job: what dblock says of it, and the status file.
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/pty.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using nlohmann::json;

const std::string k_deaf = "trap '' TERM INT; ";  // a job that takes no notice

// A run with a status file whose job says when it is up.
class Stopped {
 public:
  Words run(const Words& options, const std::string& job) const {
    const Words all = with({"--status-file", directory_.file("status"), "--kill-grace", "300ms"}, options);
    return run_words("k", all, sh(job + "touch " + directory_.file("up") + "; sleep 300 & wait; wait"));
  }
  // A job of one process. What a shell starts in the background ignores INT.
  [[nodiscard]] std::string alone() const { return "touch " + up() + "; exec sleep 300; "; }
  [[nodiscard]] std::string up() const { return directory_.file("up"); }
  [[nodiscard]] bool is_up() const { return std::filesystem::exists(up()); }
  [[nodiscard]] json status() const { return json::parse(read_file(directory_.file("status"))); }
  [[nodiscard]] json stop() const { return status().at("stop"); }

 private:
  TempDir directory_;
};

// Started in the background by a shell that stays.
Spawn in_background(Spawn spec) {
  spec.argv = with({"/bin/sh", "-c", "\"$@\" & exec sleep 300", "sh"}, spec.argv);
  return spec;
}

json sender() {
  return {{"pid", ::getpid()}, {"uid", ::getuid()}};
}

std::string asked_by_us(const std::string& signal) {
  return "dblock: asked to stop by " + signal + " from pid " + std::to_string(::getpid()) + " (user ";
}

TEST_CASE(
    "a job that does not end and is killed is no riddle: the last line and the status file say who asked",
    "[asan-local]") {
  const Database database;
  const Stopped stopped;
  Process process(dblock_spawn(database, stopped.run({}, k_deaf)));
  await_file(process, stopped.up());
  process.signal(SIGTERM);
  CHECK(process.wait() == killed_by(SIGKILL));
  const std::string last = last_line(process.err());
  INFO(last);
  CHECK(last.starts_with(asked_by_us("TERM")));
  CHECK(says(last, "): the job got TERM, had not ended "));
  CHECK(last.ends_with(" later, and was killed; --stop-grace gives it longer"));
  const json status = stopped.status();
  INFO(status.dump());
  CHECK(status.at("outcome") == "signalled");
  CHECK(status.at("exit_code") == 137);
  CHECK("dblock: " + status.at("message").get<std::string>() == last);
  CHECK(status.at("stop") ==
        json{{"reason", "signal"}, {"signal", "TERM"}, {"who", sender()}, {"killed", true}});
}

TEST_CASE("a stop that comes after the job's own end is said to be of what it left running") {
  const Database database;
  const TempDir directory;
  Process process(dblock_spawn(
      database, run_words("k", {"--status-file", directory.file("status")},
                          sh(k_deaf + "sleep 300 & touch " + directory.file("up") + "; exit 3"))));
  await_file(process, directory.file("up"));
  CHECK_FALSE(wait_until([&] { return !process.running(); }, milliseconds{300}));
  process.signal(SIGTERM);
  CHECK(process.wait() == exited(3));
  const std::string last = last_line(process.err());
  INFO(last);
  CHECK(last.starts_with(asked_by_us("TERM")));
  CHECK(says(last, "): the job had ended by then, and what it left running went on for "));
  CHECK(last.ends_with(" and was killed"));
  CHECK(json::parse(read_file(directory.file("status"))).at("outcome") == "failed");
}

TEST_CASE("what is waited for after the job's end is said, and why the end of a stopped run came late",
          "[asan-local]") {
  const Database database;
  const TempDir directory;
  const std::string deaf = "(trap '' INT; exec sh -c '" + print_into(directory.file("left"), "echo $$") +
                           "; exec sleep 600') & " + await_in_shell(directory.file("left"));
  Process process(
      dblock_spawn(database, run_words("k", {"-v", "--kill-grace", "8s"},
                                       sh(deaf + "; touch " + directory.file("up") + "; exec sleep 600"))));
  await_file(process, directory.file("up"));
  process.signal(SIGINT);
  const std::string left = "sleep (" + std::to_string(pid_in(directory.file("left"))) + ")";
  CHECK(soon_says(
      process,
      "the job has ended; the lock is kept until what the job left running has ended, too: " + left + "\n"));
  CHECK(process.wait() == killed_by(SIGINT));
  const std::string last = last_line(process.err());
  INFO(last);
  CHECK(last.starts_with(asked_by_us("INT")));
  CHECK(says(last, "): the job got INT and ended "));
  CHECK(says(last, " later; what it left running went on for "));
  CHECK(last.ends_with(" and was killed"));
}

TEST_CASE("a stop that takes long is said while it lasts, with the option that bounds it", "[asan-local]") {
  const Database database;
  const Stopped stopped;
  Process process(dblock_spawn(database, stopped.run({"-v", "--stop-grace", "2h"}, k_deaf)));
  await_file(process, stopped.up());
  process.signal(SIGTERM);
  CHECK(soon_says(
      process,
      "the job was asked to end and still runs; it is killed in 1h59m at the latest (--stop-grace)"));
  CHECK(process.running());
}

TEST_CASE("a kill grace that the TTL has no room for is refused with the option that is meant") {
  const Database database;
  const auto refused = dblock(database, run_words("k", {"--kill-grace", "10m"}, {"true"}));
  check_ended(refused, 64, {"more than the TTL (2m)", "--stop-grace is enough"});
  CHECK(dblock(database, run_words("k", {"--stop-grace", "10m"}, {"true"})).exit == exited(0));
}

TEST_CASE("a job that nobody had stopped was killed by somebody else") {
  const Database database;
  const TempDir directory;
  const auto finished =
      dblock(database, run_words("k", {"--status-file", directory.file("status")}, sh("kill -KILL $$")));
  CHECK(finished.exit == killed_by(SIGKILL));
  CHECK(finished.err.empty());
  const json status = json::parse(read_file(directory.file("status")));
  CHECK(status.at("stop").is_null());
  CHECK(status.at("message") == "");
}

TEST_CASE("a job that ends when it is asked to is said to have done so") {
  const Database database;
  const Stopped stopped;
  Process process(dblock_spawn(database, stopped.run({}, "trap 'exit 7' HUP; ")));
  await_file(process, stopped.up());
  process.signal(SIGHUP);
  CHECK(process.wait() == exited(7));
  const std::string last = last_line(process.err());
  INFO(last);
  CHECK(last.starts_with(asked_by_us("HUP")));
  CHECK(says(last, "): the job got HUP and ended "));
  CHECK(stopped.stop() ==
        json{{"reason", "signal"}, {"signal", "HUP"}, {"who", sender()}, {"killed", false}});
}

TEST_CASE("the end of the process that started dblock is told from a signal", "[asan-local]") {
  const Database database;
  const Stopped stopped;
  Process parent(in_background(dblock_spawn(database, stopped.run({"--with-parent"}, k_deaf))));
  await_file(parent, stopped.up());
  const pid_t pid = parent.pid();
  parent.signal(SIGKILL);
  CHECK(soon_gone(parent));
  CHECK(says(parent.err(), "dblock: asked to stop since the process that started dblock (pid " +
                               std::to_string(pid) + ") has ended: the job got TERM, had not ended "));
  CHECK(stopped.stop() == json{{"reason", "parent-ended"},
                               {"signal", "TERM"},
                               {"who", {{"pid", pid}, {"uid", nullptr}}},
                               {"killed", true}});
}

TEST_CASE("Ctrl-C is told from a signal, and spoken of only where the job ignores it") {
  const Database database;
  for (const bool deaf : {false, true}) {
    const Stopped stopped;
    Terminal terminal(dblock_spawn(database, stopped.run({}, (deaf ? k_deaf : "") + stopped.alone())));
    REQUIRE(wait_until([&] { return stopped.is_up(); }));
    terminal.send(k_ctrl_c);
    CHECK(terminal.wait() == killed_by(SIGINT));
    INFO(terminal.screen());
    CHECK(says(terminal.screen(), "asked to stop by INT from the terminal: the job got INT, had not ended") ==
          deaf);
    CHECK(says(terminal.screen(), "asked to stop") == deaf);
    CHECK(stopped.stop() ==
          json{{"reason", "signal"}, {"signal", "INT"}, {"who", "terminal"}, {"killed", deaf}});
  }
}

TEST_CASE("Ctrl-C is told, too, where dblock reads of the job's end before it reads the signal") {
  const Database database;
  const Stopped stopped;
  Terminal terminal(dblock_spawn(database, stopped.run({}, stopped.alone())));
  REQUIRE(wait_until([&] { return stopped.is_up(); }));
  REQUIRE(freeze(terminal.pid()));
  terminal.send(k_ctrl_c);
  REQUIRE(wait_until([&] { return terminal.tree().size() == 2; }));  // dblock and its guardian
  ::kill(terminal.pid(), SIGCONT);
  CHECK(terminal.wait() == killed_by(SIGINT));
  CHECK(stopped.stop() ==
        json{{"reason", "signal"}, {"signal", "INT"}, {"who", "terminal"}, {"killed", false}});
}

TEST_CASE("a job out of time and one whose lease is gone are told apart, with what became of them",
          "[asan-local]") {
  Database database;
  const auto reason_of = [](const json& stop) { return stop.at("reason").get<std::string>(); };
  const Stopped late;
  const auto timed_out = dblock(database, late.run({"--max-runtime", "200ms"}, k_deaf));
  CHECK(timed_out.exit == exited(124));
  INFO(timed_out.err);
  CHECK(says(last_line(timed_out.err), "was stopped (it had not ended "));
  CHECK(says(last_line(timed_out.err), " after TERM and was killed; --stop-grace gives it longer)"));
  CHECK(late.stop() ==
        json{{"reason", "max-runtime"}, {"signal", "TERM"}, {"who", nullptr}, {"killed", true}});

  const Words short_lease{"--ttl", "20s", "--heartbeat", "100ms"};
  const Stopped revoked;
  Process holder(dblock_spawn(database, revoked.run(short_lease, "")));
  await_file(holder, revoked.up());
  revoke(database);
  CHECK(holder.wait() == exited(76));
  CHECK(reason_of(revoked.stop()) == "revoked");
  CHECK_FALSE(revoked.stop().at("killed").get<bool>());

  const Stopped lost;
  Process loser(dblock_spawn(database, lost.run(short_lease, k_deaf)));
  await_file(loser, lost.up());
  database.delete_rows();
  CHECK(loser.wait() == exited(76));
  CHECK(says(loser.err(), "the job was stopped (it had not ended "));
  CHECK(reason_of(lost.stop()) == "lost");
}

TEST_CASE("a wait that is broken off tells by whom, and how long it was") {
  const Database database;
  take(database);
  const Stopped stopped;
  const auto started = std::chrono::steady_clock::now();
  Process waiter(dblock_spawn(database, stopped.run({"-v", "--wait", "1h"}, "")));
  REQUIRE(soon_says(waiter, "waiting"));
  const auto seen_waiting = std::chrono::steady_clock::now();
  pause_for(300ms);  // a length that is not mistaken for none
  const auto waited_at_least = std::chrono::steady_clock::now() - seen_waiting;
  waiter.signal(SIGTERM);
  CHECK(waiter.wait() == killed_by(SIGTERM));
  const auto waited_at_most = std::chrono::steady_clock::now() - started;
  CHECK(
      says(last_line(waiter.err()), "stopped by SIGTERM from pid " + std::to_string(::getpid()) + " (user "));
  CHECK(stopped.stop() ==
        json{{"reason", "signal"}, {"signal", "TERM"}, {"who", sender()}, {"killed", false}});
  const milliseconds waited{stopped.status().at("waited_ms").get<int>()};
  CHECK(waited + 1ms >= waited_at_least);
  CHECK(waited <= waited_at_most);
}

TEST_CASE("a wait that ends with the process that started dblock says so") {
  const Database database;
  take(database);
  const Stopped stopped;
  Process parent(
      in_background(dblock_spawn(database, stopped.run({"-v", "--with-parent", "--wait", "1h"}, ""))));
  REQUIRE(soon_says(parent, "waiting"));
  parent.signal(SIGKILL);
  CHECK(soon_gone(parent));
  CHECK(says(parent.err(), "stopped since the process that started dblock (pid " +
                               std::to_string(parent.pid()) +
                               ") has ended, while waiting for lock \"k\"; nothing was run"));
  CHECK(stopped.stop().at("reason") == "parent-ended");
}

TEST_CASE("the status file tells the time spent waiting for the lock, and a grant at once is none") {
  const Database database;
  const TempDir directory;
  const auto told = [&] {
    return json::parse(read_file(directory.file("status"))).at("waited_ms").get<int>();
  };
  const auto waited = [&](const Words& options) {
    const Words all = with({"--status-file", directory.file("status")}, options);
    UNSCOPED_INFO(dblock(database, run_words("k", all, {"true"})).err);
    return told();
  };
  CHECK(waited({}) == 0);
  const std::string owner = take(database);
  CHECK(waited({}) == 0);  // it did not wait
  Process waiter = waiting_run(database, {"--wait", "60s", "--status-file", directory.file("status")});
  pause_for(500ms);
  release_lease(database, owner);
  CHECK(waiter.wait() == exited(0));
  CHECK(told() >= 500);
}

TEST_CASE("time spent in line is no slow grant, and a lock that stays held was not acquired") {
  const Database database;
  const std::string owner = take(database);
  Process waiter = waiting_run(database, {"--wait", "60s", "--warn-after", "3s"});
  pause_for(3s);  // what would be too slow for a grant
  release_lease(database, owner);
  CHECK(waiter.wait() == exited(0));
  INFO(waiter.err());
  CHECK_FALSE(says(waiter.err(), "took"));
  take(database);
  for (const Words& words :
       {run_words("k", {"--wait", "1s", "--warn-after", "1ms"}, {"true"}),
        Words{"acquire", "--key", "k", "--ttl", "5s", "--wait", "1s", "--warn-after", "1ms"}}) {
    const auto refused = dblock(database, words);
    CHECK(refused.exit == exited(75));
    CHECK(lines(refused.err).size() == 1);
    CHECK_FALSE(says(refused.err, "took"));
  }
}

TEST_CASE("a script that waits for the lock that it holds itself is told so") {
  const Database database;
  const auto script = [&](const std::string& sharing, const std::string& rest) {
    Spawn spec = dblock_spawn(database, {});
    spec.env.push_back("D=" + dblock_binary());
    spec.argv = sh("lock=$($D acquire -k k --ttl 1h --format shell" + sharing +
                   ") || exit; eval \"$lock\"; " + rest + "; code=$?; $D release; exit $code");
    return run_program(spec);
  };
  const std::string words = "this script holds it itself (DBLOCK_OWNER)";
  const auto once = script("", "$D run -k k true");
  CHECK(once.exit == exited(75));
  CHECK(says(once.err, words));
  CHECK_FALSE(says(once.err, "--wait D waits for it"));
  const auto waits = script("", "$D run -k k --wait 300ms true");
  CHECK(waits.exit == exited(75));
  CHECK(count_of(waits.err, "dblock: warning: waiting for lock \"k\"; " + words) == 1);
  CHECK_FALSE(says(script("", "$D run -k other true").err, words));
  // Of several slots another may become free.
  const auto slots =
      script(" --slots 2", "$D acquire -k k --ttl 1h --slots 2 >&2; $D run -k k --slots 2 true");
  CHECK(slots.exit == exited(75));
  CHECK(says(slots.err, "--wait D waits for it"));
}

}  // namespace
}  // namespace dblock::test
