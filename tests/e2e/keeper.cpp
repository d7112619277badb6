// acquire --while-pid: a lease that lasts as long as a process does.
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

const std::string k_name = "dblock-keeper";

// Keepers among the processes that a spawned program has started.
std::vector<pid_t> keepers_of(const Process& process) {
  std::vector<pid_t> found;
  for (const pid_t pid : process.tree()) {
    if (proc_info(pid).name == k_name) found.push_back(pid);
  }
  return found;
}

pid_t keeper_of(const Process& process) {
  std::vector<pid_t> found;
  if (!wait_until([&] { return !(found = keepers_of(process)).empty(); }))
    throw std::runtime_error("no keeper; stderr: " + process.err());
  REQUIRE(found.size() == 1);
  return found.front();
}

// A script that takes the lock for itself, writes the owner id to `id` and goes on with `rest`.
Spawn script(const Database& database, const TempDir& directory, const std::string& options,
             const std::string& rest, const std::string& shell = "/bin/sh") {
  Spawn spec;
  spec.argv = {shell, "-c",
               "dblock() { " + dblock_binary() + " \"$@\"; }; set -e\n" +
                   "id=$(dblock acquire --key k --while-pid $$ " + options + ")\n" + "echo \"$id\" > " +
                   directory.file("new") + "; mv " + directory.file("new") + " " + directory.file("id") +
                   "\n" + rest};
  spec.env = {"DBLOCK_DB=" + database.url()};
  return spec;
}

const std::string k_for_ever = "while :; do sleep 0.05; done";
// One heartbeat is then half a second.
const std::string k_short = "--ttl 3s ";

// The renewals of a lease show in its row.
bool is_renewed(const Database& database) {
  const long long expires = database.expires_micros("k");
  return wait_until([&] { return database.expires_micros("k") > expires; });
}

TEST_CASE("an owner id comes at once from every shell while its keeper goes on renewing", "[tsan]") {
  for (const std::string shell : {"/bin/sh", "/bin/dash", "/bin/bash", "/bin/zsh"}) {
    if (!std::filesystem::exists(shell)) continue;
    INFO(shell);
    Database database;
    const TempDir directory;
    // The end of `$(...)` is awaited by nothing else than the lines that follow it.
    Process process(script(database, directory, k_short, k_for_ever, shell));
    await_file(process, directory.file("id"));
    CHECK(database.column("k", "lock_value") + "\n" == read_file(directory.file("id")));
    CHECK(database.column("k", "holder_pid") == std::to_string(process.pid()));
    CHECK(database.column("k", "holder_command") == std::filesystem::path(shell).filename().string());
    CHECK(database.column("k", "kind") == "acquire");
    CHECK(is_renewed(database));
  }
}

TEST_CASE("the lease of a keeper is as long as that of a run unless it is said") {
  Database database;
  const TempDir directory;
  Process process(script(database, directory, "", k_for_ever));
  await_file(process, directory.file("id"));
  CHECK(database.column("k", "ttl_us") == "120000000");
  CHECK(database.column("k", "heartbeat_us") == "15000000");
}

TEST_CASE("a keeper has nothing of its caller's") {
  Database database;
  const TempDir directory;
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  auto spec = script(database, directory, "", k_for_ever);
  spec.keep_fds = {pipe[1]};
  spec.cwd = directory.path();
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
    CHECK(file.find(pipe_name) == std::string::npos);
    CHECK(file.find("pipe:") == std::string::npos);
    CHECK(file.find(directory.path()) == std::string::npos);
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

TEST_CASE("the lock is free moments after the process has ended, however it ended", "[tsan]") {
  for (const bool killed : {false, true}) {
    Database database;
    const TempDir directory;
    // A whole lease lasts far longer than the test is patient.
    Process process(script(database, directory, "--ttl 10m",
                           "while [ ! -e " + directory.file("go") + " ]; do sleep 0.02; done"));
    await_file(process, directory.file("id"));
    const pid_t keeper = keeper_of(process);
    CHECK(database.has_holder("k"));
    if (killed)
      process.signal(SIGKILL);
    else
      write_file(directory.file("go"), "");
    CHECK(process.wait() == (killed ? killed_by(SIGKILL) : exited(0)));
    CHECK(wait_until([&] { return !database.has_holder("k"); }));
    CHECK(database.column("k", "last_outcome") == "released");
    CHECK(wait_until([&] { return !alive(keeper); }));
  }
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
  const TempDir directory;
  Process process(script(database, directory, "--ttl 10m", k_for_ever));
  await_file(process, directory.file("id"));
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
  CHECK(wait_until([&] { return !database.has_holder("k"); }));
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST_CASE("a hangup and a termination of everything around it do not end a keeper") {
  Database database;
  const TempDir directory;
  Process process(script(database, directory, k_short, k_for_ever));
  await_file(process, directory.file("id"));
  const pid_t keeper = keeper_of(process);
  for (const int signal : {SIGHUP, SIGTERM, SIGINT}) ::kill(keeper, signal);
  CHECK(is_renewed(database));
  CHECK(alive(keeper));
}

TEST_CASE("a keeper that is killed costs a lease and its margin, no more") {
  Database database;
  const TempDir directory;
  Process process(script(database, directory, "--ttl 3s --margin 200ms", k_for_ever));
  await_file(process, directory.file("id"));
  ::kill(keeper_of(process), SIGKILL);
  CHECK(dblock(database, run_words("k", {"--wait", "20s"}, {"true"})).exit == exited(0));
  CHECK(process.running());
}

TEST_CASE("a release by the script ends the keeper silently", "[tsan]") {
  Database database;
  const TempDir directory;
  Process process(script(database, directory, k_short,
                         "trap 'touch " + directory.file("signalled") +
                             "' TERM; dblock release --key k --owner \"$id\"; touch " +
                             directory.file("released") + "; " + k_for_ever));
  await_file(process, directory.file("id"));
  await_file(process, directory.file("released"));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(wait_until([&] { return keepers_of(process).empty(); }));
  CHECK_FALSE(std::filesystem::exists(directory.file("signalled")));
  CHECK(process.running());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a release is no loss even when another takes the lock before the keeper knows") {
  Database database;
  const TempDir directory;
  Process process(
      script(database, directory, k_short,
             "trap 'touch " + directory.file("signalled") +
                 "' TERM; dblock release --key k --owner \"$id\"; dblock acquire --key k --ttl 60s; "
                 "touch " +
                 directory.file("released") + "; " + k_for_ever));
  await_file(process, directory.file("id"));
  await_file(process, directory.file("released"));
  const std::string other = database.column("k", "lock_value");
  CHECK(wait_until([&] { return keepers_of(process).empty(); }));
  CHECK_FALSE(std::filesystem::exists(directory.file("signalled")));
  CHECK(process.running());
  CHECK(database.column("k", "lock_value") == other);
}

TEST_CASE("a script that releases and takes the lock again has one keeper in the end") {
  Database database;
  const TempDir directory;
  Process process(
      script(database, directory, k_short,
             "for i in 1 2 3; do dblock release --key k --owner \"$id\"; id=$(dblock acquire --key k "
             "--while-pid $$ --ttl 3s); done; touch " +
                 directory.file("done") + "; " + k_for_ever));
  await_file(process, directory.file("id"));
  await_file(process, directory.file("done"));
  CHECK(wait_until([&] { return keepers_of(process).size() == 1; }));
  CHECK(is_renewed(database));
  CHECK(process.running());
}

TEST_CASE("a revoked lease makes the keeper send the signal that was asked for and free the lock") {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    Database database;
    const TempDir directory;
    // The row keeps its holder until somebody releases it, expired or not.
    Process process(script(database, directory, signal == SIGTERM ? k_short : k_short + "--lost-signal usr1",
                           "exec sleep 300"));
    await_file(process, directory.file("id"));
    REQUIRE(dblock(database, {"release", "--key", "k", "--force", "--token", database.column("k", "token")})
                .exit == exited(0));
    CHECK(process.wait(20s * slowness()) == killed_by(signal));
    CHECK(wait_until([&] { return !database.has_holder("k"); }));
  }
}

TEST_CASE("the script's own renew can neither shorten nor outlive what its keeper believes") {
  Database database;
  const TempDir directory;
  Process process(script(database, directory, "--ttl 12s",
                         "dblock renew --key k --owner \"$id\" --ttl 1s; touch " + directory.file("renewed") +
                             "; " + k_for_ever));
  await_file(process, directory.file("id"));
  await_file(process, directory.file("renewed"));
  CHECK(is_renewed(database));
  CHECK(database.column("k", "ttl_us") == "12000000");
  CHECK(database.expires_micros("k") > realtime_micros() + 8'000'000);
}

TEST_CASE("a held lock ends a script under set -e with 75 and leaves no keeper") {
  Database database;
  const TempDir directory;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  Process process(script(database, directory, "", "touch " + directory.file("went-on")));
  CHECK(process.wait() == exited(75));
  CHECK_FALSE(std::filesystem::exists(directory.file("went-on")));
  // Told that there is nothing to do, a keeper asks the store nothing.
  CHECK(wait_until([&] { return process.tree().empty(); }, 2s * slowness()));
}

TEST_CASE("a wait for the lock ends with the process it is for and leaves nothing") {
  Database database;
  const TempDir directory;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  const std::string holder = database.column("k", "lock_value");
  Process script_process({.argv = {"sleep", "300"}});
  Process waiting(dblock_spawn(database, {"acquire", "--key", "k", "--wait", "forever", "--while-pid",
                                          std::to_string(script_process.pid())}));
  keeper_of(waiting);
  script_process.signal(SIGKILL);
  CHECK(waiting.wait() == exited(64));
  CHECK(ends_with_exit_line(waiting.err(), 64));
  CHECK(wait_until([&] { return waiting.tree().empty(); }));
  CHECK(database.column("k", "lock_value") == holder);
}

TEST_CASE("a keeper killed while its dblock waits ends the wait and leaves nothing") {
  Database database;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  const std::string holder = database.column("k", "lock_value");
  Process waiting(dblock_spawn(
      database, {"acquire", "--key", "k", "--wait", "forever", "--while-pid", std::to_string(::getpid())}));
  ::kill(keeper_of(waiting), SIGKILL);
  CHECK(waiting.wait() == exited(70));
  CHECK(waiting.err().find("keeper") != std::string::npos);
  CHECK(wait_until([&] { return waiting.tree().empty(); }));
  CHECK(database.column("k", "lock_value") == holder);
}

TEST_CASE("a signal ends a wait with a keeper and leaves nothing") {
  Database database;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  Process waiting(dblock_spawn(database, {"-v", "acquire", "--key", "k", "--wait", "forever", "--while-pid",
                                          std::to_string(::getpid())}));
  REQUIRE(wait_until([&] { return waiting.err().find("waiting") != std::string::npos; }));
  waiting.signal(SIGTERM);
  CHECK(waiting.wait() == killed_by(SIGTERM));
  CHECK(says(waiting.err(), "stopped by SIGTERM from pid " + std::to_string(::getpid()) + " (user "));
  CHECK(wait_until([&] { return waiting.tree().empty(); }));
}

TEST_CASE("a lease that nobody learnt of is given back") {
  Database database;
  const TempDir directory;
  auto spec = dblock_spawn(
      database, {"acquire", "--key", "k", "--ttl", "10m", "--while-pid", std::to_string(::getpid())});
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  REQUIRE(full >= 0);
  spec.stdout_fd = full;
  Process process(spec);
  CHECK(process.wait().number != 0);
  ::close(full);
  CHECK(wait_until([&] { return process.tree().empty(); }));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("dblock killed at any moment of taking a kept lock leaves either all of it or nothing") {
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
    // A keeper that was not told in time gives the lock back at the same time.
    if (exit == exited(0)) CHECK(kept());
    const auto released = dblock(
        database, {"release", "--key", "k", "--owner", process.out().substr(0, process.out().size() - 1)});
    CHECK((released.exit == exited(0) || exit != exited(0)));
    REQUIRE_FALSE(database.has_holder("k"));
  }
}

TEST_CASE(
    "a process that is gone, no process, a thread or dblock itself is refused before anything is taken") {
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
    CHECK(refused.err.find("--while-pid") != std::string::npos);
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
  CHECK(refused.err.find("another user") != std::string::npos);
}

TEST_CASE("acquire with neither a ttl nor a process is refused and names both") {
  const Database database;
  const auto neither = dblock(database, {"acquire", "--key", "k"});
  CHECK(neither.exit == exited(64));
  CHECK(neither.err.find("--ttl") != std::string::npos);
  CHECK(neither.err.find("--while-pid") != std::string::npos);
  const auto signal_alone =
      dblock(database, {"acquire", "--key", "k", "--ttl", "5s", "--lost-signal", "HUP"});
  CHECK(signal_alone.exit == exited(64));
  CHECK(signal_alone.err.find("--while-pid") != std::string::npos);
  CHECK(dblock(database, {"acquire", "--key", "k", "--while-pid", std::to_string(::getpid()), "--lost-signal",
                          "nonsense"})
            .exit == exited(64));
  const auto of_run = dblock(
      database, {"acquire", "--key", "k", "--while-pid", std::to_string(::getpid()), "--on-lost", "HUP"});
  CHECK(of_run.exit == exited(64));
  CHECK(of_run.err.find("did you mean --lost-signal?") != std::string::npos);
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
  CHECK(outer.err().find("dblock-keeper") == std::string::npos);
  CHECK(wait_until([&] { return !database.has_holder("k"); }));
}

}  // namespace
}  // namespace dblock::test
