// dblock as process 1 of a container, in a pid namespace: the kernel treats the signals of such a process
// differently, and its end kills all others.
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const Words k_container{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"};

std::string why_no_container() {
  Spawn spec{.argv = k_container};
  spec.argv.emplace_back("true");
  const auto tried = run_program(spec);
  return tried.exit == exited(0) ? "" : "no pid namespace of one's own: " + tried.err;
}

Spawn in_container(const Database& database, const Words& words) {
  Spawn spec = dblock_spawn(database, words);
  spec.argv.insert(spec.argv.begin(), k_container.begin(), k_container.end());
  return spec;
}

// The host's number of the container's process 1.
pid_t first_process(const Process& container) {
  pid_t found = 0;
  REQUIRE(wait_until([&] {
    for (const pid_t pid : children_of(container.pid())) found = proc_info(pid).name == "dblock" ? pid : 0;
    return found != 0;
  }));
  return found;
}

TEST_CASE("process 1 of a container passes the job's exit code on, and its own") {
  DBLOCK_NEEDS(why_no_container());
  Database database;
  const auto run = [&](const Words& job) {
    return run_program(in_container(database, run_words("k", {}, job)));
  };
  CHECK(run(sh("test $PPID = 2; exit 7")).exit == exited(7));
  CHECK(run(sh("kill -KILL $$")).exit == exited(137));
  CHECK(run({"no-such-program"}).exit == exited(127));
  CHECK_FALSE(database.has_holder("k"));
  take(database);
  CHECK(run({"true"}).exit == exited(75));
}

TEST_CASE("TERM to process 1 of a container stops the job and gives the lock back", "[safety][asan-local]") {
  DBLOCK_NEEDS(why_no_container());
  Database database;
  const TempDir directory;
  Process container(in_container(database, run_words("k", {"--kill-grace", "500ms"}, tree_job(directory))));
  await_file(container, directory.file("up"));
  CHECK(status_field(first_process(container), "NSpid").ends_with("\t1"));
  ::kill(first_process(container), SIGTERM);
  CHECK(container.wait() == exited(143));
  CHECK(says(container.err(), "asked to stop by TERM from a process outside of this PID namespace: "));
  CHECK(container.tree().empty());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a signal ends the wait of process 1 of a container") {
  DBLOCK_NEEDS(why_no_container());
  const Database database;
  take(database);
  Process container(in_container(database, run_words("k", {"-v", "--wait", "1h"}, {"true"})));
  REQUIRE(soon_says(container, "waiting"));
  ::kill(first_process(container), SIGTERM);
  check_ends(container, 143);
}

// The kernel lets no signal of its own namespace end process 1.
TEST_CASE("a signal breaks off the command that looks for the password of process 1 of a container",
          "[server]") {
  DBLOCK_NEEDS(why_no_container());
  const ServerDatabase database;
  const TempDir directory;
  const std::string conf = directory.file("conf");
  write_file(conf, "password-command = echo >" + directory.file("up") + "; sleep 600 & wait\n", 0600);
  Spawn spec = in_container(database, {"--config", conf, "inspect"});
  spec.env.insert(spec.env.begin(), "DBLOCK_DB=mysql://u@127.0.0.1:1/d?connect-timeout=1h");
  Process container(spec);
  await_file(container, directory.file("up"));
  ::kill(first_process(container), SIGTERM);
  check_ends(container, 78, {"was broken off by a signal"});
  CHECK(soon_gone(container));
}

TEST_CASE("a container killed whole: its job is dead, and the lock free after lease and margin", "[safety]") {
  DBLOCK_NEEDS(why_no_container());
  Database database;
  const TempDir directory;
  Process container(
      in_container(database, run_words("k", {"--ttl", "2s", "--margin", "500ms"}, tree_job(directory))));
  await_file(container, directory.file("up"));
  ::kill(first_process(container), SIGKILL);
  CHECK(soon_gone(container));
  const long long expires = database.expires_micros("k");
  CHECK(database.has_holder("k"));  // nobody was left to release it
  CHECK(run_true(database, "k", {"--wait", "60s"}) == exited(0));
  CHECK(database.micros("k", "last_acquired_at") >= expires + 500'000);
}

// The container's runtime has started dblock, which it cannot see.
TEST_CASE("with-parent says that a parent outside of the pid namespace cannot be watched, and runs nothing") {
  DBLOCK_NEEDS(why_no_container());
  Database database;
  const TempDir directory;
  const auto finished = run_program(
      in_container(database, run_words("k", {"--with-parent"}, {"touch", directory.file("ran")})));
  INFO(finished.err);
  check_ended(finished, 64, {"outside of this PID namespace"});
  CHECK_FALSE(database.has_row("k"));
  // A shell between the two can be watched.
  Spawn shell = in_container(database, {});
  shell.argv.insert(shell.argv.end() - 1, {"/bin/sh", "-c", "\"$0\" run -k k --with-parent true; exit $?"});
  CHECK(run_program(shell).exit == exited(0));
}

}  // namespace
}  // namespace dblock::test
