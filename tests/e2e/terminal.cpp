// At a terminal: the keys that make signals reach everybody once, and job control does not park a lock.
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/pty.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

Spawn bash(const Database& database, const std::string& script) {
  Spawn spec = dblock_spawn(database, {});
  spec.argv = {"/bin/bash", "-c", script};
  return spec;
}

bool runs(const Terminal& terminal, const std::string& name) {
  return !named(name, terminal.tree()).empty();
}

TEST_CASE("Ctrl-C in a shell loop stops the loop") {
  Database database;
  Terminal terminal(bash(database, "while :; do " + dblock_binary() +
                                       " run --key k -- sh -c 'echo started; sleep 60'; echo looping; done"));
  REQUIRE(terminal.shows("started"));
  // A shell caught between fork and exec would swallow the signal.
  REQUIRE(wait_until([&] { return runs(terminal, "sleep"); }));
  terminal.send(k_ctrl_c);
  const auto exit = terminal.wait();
  INFO(terminal.screen());
  REQUIRE(exit.has_value());
  CHECK(*exit == killed_by(SIGINT));
  CHECK_FALSE(says(terminal.screen(), "looping"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("Ctrl-C stops the loop too when the job ignores it and has to be killed after its grace") {
  Database database;
  Terminal terminal(
      bash(database, "while :; do " + dblock_binary() +
                         " run --kill-grace 300ms --key k -- sh -c 'trap \"\" INT; echo started; sleep 60'; "
                         "echo looping; done"));
  REQUIRE(terminal.shows("started"));
  terminal.send(k_ctrl_c);
  CHECK(terminal.wait() == killed_by(SIGINT));
  CHECK_FALSE(says(terminal.screen(), "looping"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("Ctrl-C at the prompt of an interactive program is the program's own affair") {
  Database database;
  const TempDir directory;
  Terminal terminal(bash(database, dblock_binary() +
                                       " run --kill-grace 100ms --ttl 6s --heartbeat 200ms --key k -- sh -c "
                                       "'stty -icanon; trap \"echo caught\" INT; "
                                       "echo started; " +
                                       await_in_shell(directory.file("go")) + "; exit 9'; echo code=$?"));
  REQUIRE(terminal.shows("started"));
  terminal.send(k_ctrl_c);
  REQUIRE(terminal.shows("caught"));
  // Each renewal comes two graces after the one before.
  for (int renewals = 0; renewals < 2; ++renewals) REQUIRE(soon_renewed(database));
  write_file(directory.file("go"), "");
  CHECK(terminal.shows("code=9"));
}

TEST_CASE("Ctrl-C during a wait stops the loop") {
  Database database;
  take(database);
  Terminal terminal(bash(database, "while :; do echo waiting; " + dblock_binary() +
                                       " run --wait forever --key k -- true; echo looping; done"));
  REQUIRE(terminal.shows("dblock: waiting"));
  terminal.send(k_ctrl_c);
  const auto exit = terminal.wait();
  REQUIRE(exit.has_value());
  CHECK(*exit == killed_by(SIGINT));
  CHECK_FALSE(says(terminal.screen(), "looping"));
}

TEST_CASE("Ctrl-C reaches the job once and from the terminal") {
  Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  Terminal terminal(bash(
      database, dblock_binary() + " run --key k -- " + job_binary() + " signals " + log + "; echo code=$?"));
  REQUIRE(wait_until([&] { return read_file(log) == "ready\n"; }));
  terminal.send(k_ctrl_c);
  CHECK(terminal.shows("code=3"));  // the job handled it and chose its code
  CHECK(read_file(log) == "ready\nINT kernel\n");
}

TEST_CASE("INT sent to dblock alone is forwarded") {
  Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  Terminal terminal(dblock_spawn(database, {"run", "--key", "k", "--", job_binary(), "signals", log}));
  REQUIRE(wait_until([&] { return read_file(log) == "ready\n"; }));
  ::kill(terminal.pid(), SIGINT);
  CHECK(terminal.wait() == exited(3));
  CHECK(read_file(log) == "ready\nINT user\n");
}

TEST_CASE("Ctrl-Backslash reaches the job once") {
  Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  Terminal terminal(dblock_spawn(database, {"run", "--key", "k", "--", job_binary(), "signals", log}));
  REQUIRE(wait_until([&] { return read_file(log) == "ready\n"; }));
  terminal.send(k_ctrl_backslash);
  CHECK(terminal.wait() == exited(3));
  CHECK(read_file(log) == "ready\nQUIT kernel\n");
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("Ctrl-Z does not park the lock: the job goes on with one message", "[asan-server]") {
  Database database;
  const TempDir directory;
  // Under a shell with job control: the terminal stops only process groups that somebody can continue.
  Terminal terminal(interactive_bash(), {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("ready> "));
  terminal.send(dblock_binary() + " run --key k -- sh -c 'echo u\"\"p; " +
                await_in_shell(directory.file("go")) + "; echo fini\"\"shed'; echo code=$?\n");
  REQUIRE(terminal.shows("up\r\n"));
  terminal.send(k_ctrl_z);
  CHECK(terminal.shows("dblock: "));
  write_file(directory.file("go"), "");
  CHECK(terminal.shows("finished"));
  CHECK(terminal.shows("code=0"));
  CHECK(count_of(terminal.screen(), "dblock: ") == 1);
  CHECK_FALSE(says(terminal.screen(), "Stopped"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("Ctrl-Z does not park the lock when it stops only a child of the job") {
  Database database;
  Terminal terminal(interactive_bash(), {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("ready> "));
  // The job's own process handles TSTP, so only its child stops. The same happens to a shell that is caught
  // between vfork() and exec: its child stops, and it cannot.
  terminal.send(
      dblock_binary() +
      " run --key k -- bash -c 'trap : TSTP; echo u\"\"p; sleep 1; echo fini\"\"shed'; echo code=$?\n");
  REQUIRE(terminal.shows("up\r\n"));
  REQUIRE(wait_until([&] { return runs(terminal, "sleep"); }));
  terminal.send(k_ctrl_z);
  CHECK(terminal.shows("finished"));
  CHECK(terminal.shows("code=0"));
}

TEST_CASE("the job reads the terminal in the foreground") {
  Database database;
  Terminal terminal(dblock_spawn(
      database, {"run", "--key", "k", "--", "/bin/sh", "-c", "echo ask; read answer; echo \"got $answer\""}));
  REQUIRE(terminal.shows("ask"));
  terminal.send("forty-two\n");
  CHECK(terminal.shows("got forty-two"));
  CHECK(terminal.wait() == exited(0));
}

TEST_CASE(
    "in the background a job that reads the terminal stops and goes on in the foreground with its lease "
    "renewed",
    "[asan-local]") {
  Database database;
  Terminal terminal(interactive_bash(), {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("ready> "));
  terminal.send(dblock_binary() + " run --ttl 2s --key k -- sh -c 'read answer; echo \"got $answer\"' &\n");
  REQUIRE(soon_held(database));
  pid_t job = 0;
  REQUIRE(wait_until([&] {
    for (const pid_t pid : terminal.tree()) {
      if (proc_info(pid).state == 'T') job = pid;
    }
    return job != 0;
  }));
  await_renewal(database);  // while the job is stopped
  CHECK(proc_info(job).state == 'T');
  terminal.send("fg\n");
  REQUIRE(wait_until([&] { return proc_info(job).state != 'T'; }));
  terminal.send("hello\n");
  CHECK(terminal.shows("got hello"));
  CHECK(soon_free(database));
}

// setsid(1) forks, and ends at once, where it leads a process group.
TEST_CASE("a job that begins with setsid holds the lock to its end, at a terminal and without one",
          "[safety]") {
  Database database;
  for (const bool at_terminal : {true, false}) {
    CAPTURE(at_terminal);
    const TempDir directory;
    const Spawn spec = dblock_spawn(database, run_words("k", {"--ttl", "6s", "--heartbeat", "200ms"},
                                                        with({"setsid"}, patient_job(directory))));
    const auto finish = [&] {
      REQUIRE(wait_until([&] { return std::filesystem::exists(directory.file("up")); }));
      for (int renewals = 0; renewals < 2; ++renewals) REQUIRE(soon_renewed(database));
      let_end(directory, 5);
    };
    if (at_terminal) {
      Terminal terminal(spec);
      finish();
      CHECK(terminal.wait() == exited(5));
    } else {
      Process process(spec);
      finish();
      CHECK(process.wait() == exited(5));
      CHECK(process.err().empty());
    }
  }
}

TEST_CASE("TERM reaches the whole group of a job without a terminal, also one that the job has made") {
  Database database;
  for (const Words& before : {Words{}, Words{"setsid"}}) {
    const TempDir directory;
    write_file(directory.file("member"),
               std::string("trap 'echo got it; exit 0' TERM; touch $1; ") + k_for_ever);
    write_file(directory.file("job"), "sh member up.1 & sh member up.2 & trap '' TERM; touch up; wait; wait");
    Spawn spec =
        dblock_spawn(database, run_words("k", {"--kill-grace", "10s"}, with(before, {"/bin/sh", "job"})));
    spec.cwd = directory.path();
    Process process(spec);
    for (const auto* const up : {"up", "up.1", "up.2"}) await_file(process, directory.file(up));
    process.signal(SIGTERM);
    CHECK(process.wait() == exited(0));
    CHECK(process.out() == "got it\ngot it\n");
  }
}

TEST_CASE("a pipeline into head ends") {
  Database database;
  Terminal terminal(bash(database, dblock_binary() + " run --key k -- yes | head -1; echo over"));
  CHECK(terminal.shows("y\r\n"));
  CHECK(terminal.shows("over"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a pager reads the job's output, and the run ends with the pager") {
  DBLOCK_NEEDS(why_no_program("less"));
  Database database;
  Terminal terminal(
      bash(database,
           dblock_binary() + " run --key k -- seq 1000000 | TERM=xterm LESSSECURE=1 less -X; echo over"));
  CHECK(terminal.shows("20"));
  CHECK(database.has_holder("k"));  // seq is blocked on the pager
  terminal.send("q");
  CHECK(terminal.shows("over"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("the end of the terminal ends the run", "[asan-local]") {
  Database database;
  Terminal terminal(
      dblock_spawn(database, {"run", "--key", "k", "--", "/bin/sh", "-c", "echo up; sleep 60"}));
  REQUIRE(terminal.shows("up"));
  terminal.hang_up();
  CHECK(terminal.wait() == killed_by(SIGHUP));
  CHECK(terminal.tree().empty());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("the terminal stays in the hands of the caller's process group") {
  Database database;
  Terminal terminal(bash(
      database, "echo shell=$$; " + dblock_binary() + " run --key k -- sh -c 'echo up; read x'; echo over"));
  REQUIRE(terminal.shows("up"));
  CHECK(terminal.foreground_group() == terminal.pid());
  terminal.send("\n");
  CHECK(terminal.shows("over"));
}

}  // namespace
}  // namespace dblock::test
