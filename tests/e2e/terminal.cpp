// At a terminal: the keys that make signals reach everybody once, and job control does not park a lock.
#include <algorithm>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/privilege.hpp"
#include "support/pty.hpp"

namespace dblock::test {
namespace {

Words bash(const std::string& script) {
  return {"/bin/bash", "-c", script};
}

bool runs(const Terminal& terminal, const std::string& name) {
  const auto tree = terminal.tree();
  return std::any_of(tree.begin(), tree.end(), [&](pid_t pid) { return proc_info(pid).name == name; });
}

TEST_CASE("Ctrl-C in a shell loop stops the loop") {
  Database database;
  Terminal terminal(bash("while :; do " + dblock_binary() +
                         " run --key k -- sh -c 'echo started; sleep 60'; echo looping; done"),
                    {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("started"));
  // A shell caught between fork and exec would swallow the signal.
  REQUIRE(wait_until([&] { return runs(terminal, "sleep"); }));
  terminal.send(k_ctrl_c);
  const auto exit = terminal.wait();
  INFO(terminal.screen());
  REQUIRE(exit.has_value());
  CHECK(*exit == killed_by(SIGINT));
  CHECK(terminal.screen().find("looping") == std::string::npos);
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("Ctrl-C stops the loop too when the job ignores it and has to be killed after its grace") {
  Database database;
  Terminal terminal(bash("while :; do " + dblock_binary() +
                         " run --kill-grace 300ms --key k -- sh -c 'trap \"\" INT; echo started; sleep 60'; "
                         "echo looping; done"),
                    {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("started"));
  terminal.send(k_ctrl_c);
  CHECK(terminal.wait() == killed_by(SIGINT));
  CHECK(terminal.screen().find("looping") == std::string::npos);
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("Ctrl-C at the prompt of an interactive program is the program's own affair") {
  Database database;
  const TempDir directory;
  Terminal terminal(bash(dblock_binary() +
                         " run --kill-grace 100ms --key k -- sh -c 'stty -icanon; trap \"echo caught\" INT; "
                         "echo started; while [ ! -e " +
                         directory.file("go") + " ]; do sleep 0.05; done; exit 9'; echo code=$?"),
                    {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("started"));
  terminal.send(k_ctrl_c);
  REQUIRE(terminal.shows("caught"));
  pause_for(300ms);  // the grace, were it running
  write_file(directory.file("go"), "");
  CHECK(terminal.shows("code=9"));
}

TEST_CASE("Ctrl-C during a wait stops the loop") {
  Database database;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  Terminal terminal(bash("while :; do echo waiting; " + dblock_binary() +
                         " run --wait forever --key k -- true; echo looping; done"),
                    {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("dblock: waiting"));
  terminal.send(k_ctrl_c);
  const auto exit = terminal.wait();
  REQUIRE(exit.has_value());
  CHECK(*exit == killed_by(SIGINT));
  CHECK(terminal.screen().find("looping") == std::string::npos);
}

TEST_CASE("Ctrl-C reaches the job once and from the terminal") {
  Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  Terminal terminal(
      bash(dblock_binary() + " run --key k -- " + job_binary() + " signals " + log + "; echo code=$?"),
      {"DBLOCK_DB=" + database.url()});
  REQUIRE(wait_until([&] { return read_file(log) == "ready\n"; }));
  terminal.send(k_ctrl_c);
  CHECK(terminal.shows("code=3"));  // the job handled it and chose its code
  CHECK(read_file(log) == "ready\nINT kernel\n");
}

TEST_CASE("INT sent to dblock alone is forwarded") {
  Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  Terminal terminal({dblock_binary(), "run", "--key", "k", "--", job_binary(), "signals", log},
                    {"DBLOCK_DB=" + database.url()});
  REQUIRE(wait_until([&] { return read_file(log) == "ready\n"; }));
  ::kill(terminal.pid(), SIGINT);
  CHECK(terminal.wait() == exited(3));
  CHECK(read_file(log) == "ready\nINT user\n");
}

TEST_CASE("Ctrl-Backslash reaches the job once") {
  Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  Terminal terminal({dblock_binary(), "run", "--key", "k", "--", job_binary(), "signals", log},
                    {"DBLOCK_DB=" + database.url()});
  REQUIRE(wait_until([&] { return read_file(log) == "ready\n"; }));
  terminal.send(k_ctrl_backslash);
  CHECK(terminal.wait() == exited(3));
  CHECK(read_file(log) == "ready\nQUIT kernel\n");
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("Ctrl-Z does not park the lock: the job goes on with one message") {
  Database database;
  const TempDir directory;
  // Under a shell with job control: the terminal stops only process groups that somebody can continue.
  Terminal terminal({"/bin/bash", "--norc", "--noprofile", "-i"}, {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("ready> "));
  terminal.send(dblock_binary() + " run --key k -- sh -c 'echo u\"\"p; while [ ! -e " + directory.file("go") +
                " ]; do sleep 0.05; done; echo fini\"\"shed'; echo code=$?\n");
  REQUIRE(terminal.shows("up\r\n"));
  terminal.send(k_ctrl_z);
  CHECK(terminal.shows("dblock: "));
  write_file(directory.file("go"), "");
  CHECK(terminal.shows("finished"));
  CHECK(terminal.shows("code=0"));
  CHECK(count_of(terminal.screen(), "dblock: ") == 1);
  CHECK(terminal.screen().find("Stopped") == std::string::npos);
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("Ctrl-Z does not park the lock when it stops only a child of the job") {
  Database database;
  Terminal terminal({"/bin/bash", "--norc", "--noprofile", "-i"}, {"DBLOCK_DB=" + database.url()});
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
  Terminal terminal({dblock_binary(), "run", "--key", "k", "--", "/bin/sh", "-c",
                     "echo ask; read answer; echo \"got $answer\""},
                    {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("ask"));
  terminal.send("forty-two\n");
  CHECK(terminal.shows("got forty-two"));
  CHECK(terminal.wait() == exited(0));
}

TEST_CASE(
    "in the background a job that reads the terminal stops and goes on in the foreground with its lease "
    "renewed") {
  Database database;
  Terminal terminal({"/bin/bash", "--norc", "--noprofile", "-i"}, {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("ready> "));
  terminal.send(dblock_binary() + " run --ttl 2s --key k -- sh -c 'read answer; echo \"got $answer\"' &\n");
  REQUIRE(wait_until([&] { return database.has_holder("k"); }));
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
  CHECK(wait_until([&] { return !database.has_holder("k"); }));
}

// setsid(1) forks, and ends at once, where it leads a process group.
TEST_CASE("a job that begins with setsid holds the lock to its end, at a terminal and without one") {
  Database database;
  for (const bool at_terminal : {true, false}) {
    CAPTURE(at_terminal);
    const TempDir directory;
    const std::string script = "touch " + directory.file("up") + "; while [ ! -e " + directory.file("go") +
                               " ]; do sleep 0.02; done; exit 5";
    const Spawn spec = dblock_spawn(database, run_words("k", {}, {"setsid", "/bin/sh", "-c", script}));
    const auto finish = [&] {
      REQUIRE(wait_until([&] { return std::filesystem::exists(directory.file("up")); }));
      CHECK_FALSE(wait_until([&] { return !database.has_holder("k"); }, milliseconds{300}));
      write_file(directory.file("go"), "");
    };
    if (at_terminal) {
      Terminal terminal(spec.argv, spec.env);
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
               "trap 'echo got it; exit 0' TERM; touch $1; while :; do sleep 0.02; done");
    write_file(directory.file("job"), "sh member up.1 & sh member up.2 & trap '' TERM; touch up; wait; wait");
    Words job = before;
    job.insert(job.end(), {"/bin/sh", "job"});
    Spawn spec = dblock_spawn(database, run_words("k", {"--kill-grace", "10s"}, job));
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
  Terminal terminal(bash(dblock_binary() + " run --key k -- yes | head -1; echo over"),
                    {"DBLOCK_DB=" + database.url()});
  CHECK(terminal.shows("y\r\n"));
  CHECK(terminal.shows("over"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a pager reads the job's output, and the run ends with the pager") {
  DBLOCK_NEEDS(why_no_program("less"));
  Database database;
  Terminal terminal(
      bash(dblock_binary() + " run --key k -- seq 1000000 | TERM=xterm LESSSECURE=1 less -X; echo over"),
      {"DBLOCK_DB=" + database.url()});
  CHECK(terminal.shows("20"));
  CHECK(database.has_holder("k"));  // seq is blocked on the pager
  terminal.send("q");
  CHECK(terminal.shows("over"));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("the end of the terminal ends the run") {
  Database database;
  Terminal terminal({dblock_binary(), "run", "--key", "k", "--", "/bin/sh", "-c", "echo up; sleep 60"},
                    {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("up"));
  terminal.hang_up();
  CHECK(terminal.wait() == killed_by(SIGHUP));
  CHECK(terminal.tree().empty());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("the terminal stays in the hands of the caller's process group") {
  Database database;
  Terminal terminal(
      bash("echo shell=$$; " + dblock_binary() + " run --key k -- sh -c 'echo up; read x'; echo over"),
      {"DBLOCK_DB=" + database.url()});
  REQUIRE(terminal.shows("up"));
  CHECK(terminal.foreground_group() == terminal.pid());
  terminal.send("\n");
  CHECK(terminal.shows("over"));
}

}  // namespace
}  // namespace dblock::test
