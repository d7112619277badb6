// acquire --while-pid: a lease that lasts as long as a process does.
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// One heartbeat is then half a second.
const std::string k_short = "--ttl 3s ";

TEST_CASE("an owner id comes at once from every shell while its keeper goes on renewing", "[tsan]") {
  for (const std::string shell : {"/bin/sh", "/bin/dash", "/bin/bash", "/bin/zsh"}) {
    if (!std::filesystem::exists(shell)) continue;
    INFO(shell);
    Database database;
    // The end of `$(...)` is awaited by nothing else than the lines that follow it.
    KeptScript process(database.url(), k_short, k_for_ever, shell);
    CHECK(database.column("k", "lock_value") + "\n" == read_file(process.file("id")));
    CHECK(database.column("k", "holder_pid") == std::to_string(process.pid()));
    CHECK(database.column("k", "holder_command") == std::filesystem::path(shell).filename().string());
    CHECK(database.column("k", "kind") == "acquire");
    CHECK(soon_renewed(database));
  }
}

TEST_CASE("the lease of a keeper is as long as that of a run unless it is said") {
  Database database;
  KeptScript process(database.url(), "");
  CHECK(database.column("k", "ttl_us") == "120000000");
  CHECK(database.column("k", "heartbeat_us") == "15000000");
}

TEST_CASE("a keeper has nothing of its caller's") {
  Database database;
  const TempDir directory;
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  auto spec = kept_script(database.url(), directory, "");
  spec.keep_fds = {pipe[1]};
  spec.ignored_signals = {SIGCHLD, SIGWINCH};
  Process process(spec);
  ::close(pipe[0]);
  await_file(process, directory.file("id"));
  const pid_t keeper = keeper_of(process);
  const std::string pipe_name = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(pipe[1]));
  CHECK_FALSE(open_files(process.pid()).empty());
  std::size_t nulls = 0;
  for (const std::string& file : open_files(keeper)) {
    INFO(file);
    CHECK_FALSE(says(file, pipe_name));
    CHECK_FALSE(says(file, "pipe:"));
    CHECK_FALSE(says(file, directory.path()));
    nulls += count_of(file, "/dev/null");
  }
  CHECK(nulls == 3);
  ::close(pipe[1]);
  CHECK(std::filesystem::read_symlink("/proc/" + std::to_string(keeper) + "/cwd") == "/");
  CHECK(proc_info(keeper).session == keeper);
  const auto ignored = std::stoull(status_field(keeper, "SigIgn"), nullptr, 16);
  const auto bit = [](int signal) { return 1ULL << static_cast<unsigned>(signal - 1); };
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE})
    CHECK((ignored & bit(signal)) != 0);
  for (const int signal : {SIGCHLD, SIGWINCH}) CHECK((ignored & bit(signal)) == 0);
  CHECK(std::stoull(status_field(keeper, "SigBlk"), nullptr, 16) == 0);
}

TEST_CASE("the lock is free moments after the process has ended, however it ended", "[tsan][asan-server]") {
  for (const bool killed : {false, true}) {
    Database database;
    // A whole lease lasts far longer than the test is patient.
    KeptScript process(database.url(), "--ttl 10m", await_in_shell("go"));
    const pid_t keeper = keeper_of(process);
    CHECK(database.has_holder("k"));
    if (killed)
      process.signal(SIGKILL);
    else
      write_file(process.file("go"), "");
    CHECK(process.wait() == (killed ? killed_by(SIGKILL) : exited(0)));
    CHECK(soon_free(database));
    CHECK(database.column("k", "last_outcome") == "released");
    CHECK(wait_until([&] { return !alive(keeper); }));
  }
}

TEST_CASE("a command that a killed script leaves behind runs on while the lock is free") {
  Database database;
  KeptScript process(
      database.url(), "--ttl 10m",
      "sleep 600 & " + print_into("child", "echo $!") + "\nwait");  // the shell's present command
  await_file(process, process.file("child"));
  process.signal(SIGKILL);
  CHECK(process.wait() == killed_by(SIGKILL));
  CHECK(soon_free(database));
  CHECK(alive(pid_in(process.file("child"))));
}

// A child of the test with a number of its choice; -1 where that is not allowed.
pid_t fork_as(pid_t number) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  args.set_tid = reinterpret_cast<std::uintptr_t>(&number);
  args.set_tid_size = 1;
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) ::pause();
}

TEST_CASE("another process that gets the number of one that has ended does not hold its lock") {
  Database database;
  KeptScript process(database.url(), "--ttl 10m");
  const pid_t keeper = keeper_of(process);
  freeze(keeper);
  process.signal(SIGKILL);
  process.wait();
  // The number is taken while it names a session: until the script's last command has ended.
  pid_t other = -1;
  CHECK(wait_until([&] { return (other = fork_as(process.pid())) > 0 || errno != EEXIST; }));
  DBLOCK_NEEDS(other < 0 ? "choosing a process's number needs CAP_CHECKPOINT_RESTORE" : "");
  CHECK(other == process.pid());
  ::kill(keeper, SIGCONT);
  CHECK(soon_free(database));
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST_CASE("a hangup and a termination of everything around it do not end a keeper") {
  Database database;
  KeptScript process(database.url(), k_short);
  const pid_t keeper = keeper_of(process);
  for (const int signal : {SIGHUP, SIGTERM, SIGINT}) ::kill(keeper, signal);
  CHECK(soon_renewed(database));
  CHECK(alive(keeper));
}

TEST_CASE("a keeper that is killed costs a lease and its margin, no more") {
  Database database;
  KeptScript process(database.url(), "--ttl 3s --margin 200ms");
  ::kill(keeper_of(process), SIGKILL);
  CHECK(run_true(database, "k", {"--wait", "60s"}) == exited(0));
  CHECK(process.running());
}

TEST_CASE("a release by the script ends the keeper silently", "[tsan]") {
  Database database;
  KeptScript process(database.url(), k_short,
                     std::string("trap 'touch signalled' TERM; dblock release --key k --owner \"$id\"; "
                                 "touch released; ") +
                         k_for_ever);
  await_file(process, process.file("released"));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(wait_until([&] { return keepers_of(process).empty(); }));
  CHECK_FALSE(std::filesystem::exists(process.file("signalled")));
  CHECK(process.running());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a release is no loss even when another takes the lock before the keeper knows", "[safety]") {
  Database database;
  KeptScript process(database.url(), k_short,
                     std::string("trap 'touch signalled' TERM; dblock release --key k --owner \"$id\"; "
                                 "dblock acquire --key k --ttl 60s; touch released; ") +
                         k_for_ever);
  await_file(process, process.file("released"));
  const std::string other = database.column("k", "lock_value");
  CHECK(wait_until([&] { return keepers_of(process).empty(); }));
  CHECK_FALSE(std::filesystem::exists(process.file("signalled")));
  CHECK(process.running());
  CHECK(database.column("k", "lock_value") == other);
}

TEST_CASE("a script that releases and takes the lock again has one keeper in the end") {
  Database database;
  KeptScript process(
      database.url(), k_short,
      std::string("for i in 1 2 3; do dblock release --key k --owner \"$id\"; id=$(dblock acquire --key k "
                  "--while-pid $$ --ttl 3s); done; touch done; ") +
          k_for_ever);
  await_file(process, process.file("done"));
  CHECK(wait_until([&] { return keepers_of(process).size() == 1; }));
  CHECK(soon_renewed(database));
  CHECK(process.running());
}

TEST_CASE("a revoked lease makes the keeper send the signal that was asked for and free the lock",
          "[safety][asan-local]") {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    Database database;
    // The row keeps its holder until somebody releases it, expired or not.
    KeptScript process(database.url(), signal == SIGTERM ? k_short : k_short + "--lost-signal usr1",
                       "exec sleep 300");
    revoke(database);
    CHECK(process.wait(20s * slowness()) == killed_by(signal));
    CHECK(soon_free(database));
  }
}

TEST_CASE("the script's own renew can neither shorten nor outlive what its keeper believes", "[safety]") {
  Database database;
  KeptScript process(
      database.url(), "--ttl 12s",
      std::string("dblock renew --key k --owner \"$id\" --ttl 1s; touch renewed; ") + k_for_ever);
  await_file(process, process.file("renewed"));
  CHECK(soon_renewed(database));
  CHECK(database.column("k", "ttl_us") == "12000000");
  CHECK(database.expires_micros("k") > realtime_micros() + 8'000'000);
}

TEST_CASE("a held lock ends a script under set -e with 75 and leaves no keeper") {
  Database database;
  const TempDir directory;
  take(database);
  Process process(kept_script(database.url(), directory, "", "touch went-on"));
  CHECK(process.wait() == exited(75));
  CHECK_FALSE(std::filesystem::exists(directory.file("went-on")));
  CHECK(soon_gone(process));
}

TEST_CASE("a wait for the lock ends with the process it is for and leaves nothing") {
  Database database;
  const std::string holder = take(database);
  Process script_process({.argv = {"sleep", "300"}});
  Process waiting(dblock_spawn(database, {"acquire", "--key", "k", "--wait", "forever", "--while-pid",
                                          std::to_string(script_process.pid())}));
  (void)keeper_of(waiting);
  script_process.signal(SIGKILL);
  check_ends(waiting, 64);
  CHECK(soon_gone(waiting));
  CHECK(database.column("k", "lock_value") == holder);
  CHECK(database.line().empty());
}

TEST_CASE("a keeper killed while its dblock waits ends the wait and leaves nothing", "[asan-local]") {
  Database database;
  const std::string holder = take(database);
  Process waiting(dblock_spawn(
      database, {"acquire", "--key", "k", "--wait", "forever", "--while-pid", std::to_string(::getpid())}));
  ::kill(keeper_of(waiting), SIGKILL);
  CHECK(waiting.wait() == exited(70));
  CHECK(says(waiting.err(), "keeper"));
  CHECK(soon_gone(waiting));
  CHECK(database.column("k", "lock_value") == holder);
  CHECK(database.line().empty());
}

TEST_CASE("a signal ends a wait with a keeper and leaves nothing", "[asan-server]") {
  Database database;
  take(database);
  Process waiting(dblock_spawn(database, {"-v", "acquire", "--key", "k", "--wait", "forever", "--while-pid",
                                          std::to_string(::getpid())}));
  REQUIRE(soon_says(waiting, "waiting"));
  waiting.signal(SIGTERM);
  CHECK(waiting.wait() == killed_by(SIGTERM));
  CHECK(says(waiting.err(), "stopped by SIGTERM from pid " + std::to_string(::getpid()) + " (user "));
  CHECK(soon_gone(waiting));
  CHECK(database.line().empty());
}

TEST_CASE("the keeper of a waiter that is killed gives its place up") {
  Database database;
  const std::string holder = take(database);
  Process waiting(dblock_spawn(database, {"-v", "acquire", "--key", "k", "--wait", "forever", "--while-pid",
                                          std::to_string(::getpid())}));
  REQUIRE(soon_says(waiting, "waiting"));
  CHECK(database.line().size() == 1);
  waiting.signal(SIGKILL);
  CHECK(waiting.wait() == killed_by(SIGKILL));
  CHECK(soon_in_line(database, 0));
  CHECK(soon_gone(waiting));
  CHECK(database.column("k", "lock_value") == holder);
}

TEST_CASE("a lease that nobody learnt of is given back", "[safety][asan-local]") {
  Database database;
  auto spec = dblock_spawn(
      database, {"acquire", "--key", "k", "--ttl", "10m", "--while-pid", std::to_string(::getpid())});
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  REQUIRE(full >= 0);
  spec.stdout_fd = full;
  Process process(spec);
  CHECK(process.wait() == exited(70));
  ::close(full);
  CHECK(soon_gone(process));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("dblock killed at any moment of taking a kept lock leaves either all of it or nothing",
          "[safety][asan-local]") {
  Database database;
  for (int i = 0; i < 40; ++i) {
    Process process(dblock_spawn(
        database, {"acquire", "--key", "k", "--ttl", "10m", "--while-pid", std::to_string(::getpid())}));
    ::usleep(static_cast<useconds_t>(500 * i));
    process.signal(SIGKILL);
    const Exit exit = process.wait();
    INFO("killed after " << i << " steps: " << exit << " " << process.out());
    // Killed between its last word to the keeper and its end it has done all of it.
    const auto kept = [&] {
      return !process.out().empty() && process.out() == database.column("k", "lock_value") + "\n" &&
             keepers_of(process).size() == 1;
    };
    if (exit != exited(0)) {
      REQUIRE(wait_until([&] { return process.tree().empty() || kept(); }));
      if (process.tree().empty()) {
        REQUIRE_FALSE(database.has_holder("k"));
        continue;
      }
    }
    if (exit == exited(0)) CHECK(kept());
    const auto released = dblock(
        database, {"release", "--key", "k", "--owner", process.out().substr(0, process.out().size() - 1)});
    INFO(released.err);
    // A dblock that was killed before it had told its keeper has a keeper that gives the lock back by itself.
    const bool by_keeper = exit != exited(0) && released.exit == exited(76);
    if (!by_keeper) CHECK(released.exit == exited(0));
    REQUIRE_FALSE(database.has_holder("k"));
    if (by_keeper) CHECK(soon_gone(process));
  }
}

TEST_CASE("a process that is gone, no process, a thread or dblock itself is refused before anything is taken",
          "[asan-local]") {
  const Database database;
  Process gone({.argv = {"true"}});
  REQUIRE(gone.wait() == exited(0));
  Process run(dblock_spawn(database, run_words("other", {}, {"sleep", "300"})));
  REQUIRE(job_of(run) != 0);
  std::string thread;
  REQUIRE(wait_until([&] {
    for (const auto& task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(run.pid()) + "/task"))
      if (task.path().filename() != std::to_string(run.pid())) thread = task.path().filename();
    return !thread.empty();
  }));
  for (const std::string& pid : {std::string("0"), std::string("-1"), std::string("x"), std::string(""),
                                 std::string("99999999999"), std::to_string(gone.pid()), thread}) {
    const auto refused = dblock(database, {"acquire", "--key", "k", "--while-pid=" + pid});
    INFO(pid << ": " << refused.err);
    CHECK(refused.exit == exited(64));
    CHECK(says(refused.err, "--while-pid"));
    CHECK(refused.out.empty());
  }
  const auto itself = run_program({.argv = sh("exec " + dblock_binary() + " acquire --key k --while-pid $$"),
                                   .env = {"DBLOCK_DB=" + database.url()}});
  CHECK(itself.exit == exited(64));
  CHECK_FALSE(database.has_row("k"));
}

TEST_CASE("a process that has ended but was not waited for is refused") {
  const Database database;
  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  REQUIRE(wait_until([&] { return proc_info(zombie).state == 'Z'; }));
  CHECK(dblock(database, {"acquire", "--key", "k", "--while-pid", std::to_string(zombie)}).exit ==
        exited(64));
  ::waitpid(zombie, nullptr, 0);
  CHECK_FALSE(database.has_row("k"));
}

TEST_CASE("another user's process is refused") {
  DBLOCK_NEEDS(why_no_other_user());
  const Database database;
  const UsersHome home;
  const auto refused = run_program(
      home.spawn({"--db", "sqlite:" + home.file("locks.db"), "acquire", "--key", "k", "--while-pid", "1"}));
  INFO(refused.err);
  CHECK(refused.exit == exited(64));
  CHECK(says(refused.err, "another user"));
}

TEST_CASE("acquire with neither a ttl nor a process is refused and names both") {
  const Database database;
  const auto neither = dblock(database, {"acquire", "--key", "k"});
  CHECK(neither.exit == exited(64));
  CHECK(says(neither.err, "--ttl"));
  CHECK(says(neither.err, "--while-pid"));
  const auto signal_alone =
      dblock(database, {"acquire", "--key", "k", "--ttl", "5s", "--lost-signal", "HUP"});
  CHECK(signal_alone.exit == exited(64));
  CHECK(says(signal_alone.err, "--while-pid"));
  CHECK(dblock(database, {"acquire", "--key", "k", "--while-pid", std::to_string(::getpid()), "--lost-signal",
                          "nonsense"})
            .exit == exited(64));
  const auto of_run = dblock(
      database, {"acquire", "--key", "k", "--while-pid", std::to_string(::getpid()), "--on-lost", "HUP"});
  CHECK(of_run.exit == exited(64));
  CHECK(says(of_run.err, "did you mean --lost-signal?"));
}

TEST_CASE("a relative path names the same store for the keeper", "[local]") {
  const TempDir directory;
  Spawn spec;
  spec.argv = sh("id=$(" + dblock_binary() +
                 " --db sqlite:here.db acquire --key k --ttl 10m --while-pid $$) || exit; " +
                 dblock_binary() + " --db sqlite:here.db inspect --key k --exit-code");
  spec.cwd = directory.path();
  Process process(spec);
  CHECK(process.wait() == exited(75));
  CHECK(wait_until([&] {
    auto again = spec;
    again.argv = {dblock_binary(), "--db", "sqlite:here.db", "inspect", "--key", "k", "--exit-code"};
    return run_program(again).exit == exited(0);
  }));
}

TEST_CASE("a keeper inside a job is neither left behind nor waited for") {
  Database database;
  // Its end would take the keeper with it.
  Process outer(
      dblock_spawn(database, run_words("outer", {"-v"},
                                       sh("id=$(" + dblock_binary() +
                                          " acquire --key k --ttl 10m --while-pid $$) && test -n \"$id\""))));
  CHECK(outer.wait() == exited(0));
  INFO(outer.err());
  CHECK_FALSE(says(outer.err(), "dblock-keeper"));
  CHECK(soon_free(database));
}

}  // namespace
}  // namespace dblock::test
