// What a job finds when it starts: environment, descriptors, signals, directory, session; and what it leaves.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

Finished run_script(const Database& database, const std::string& script, const Words& options = {},
                    const Words& env = {}) {
  return dblock(database, run_words("k", options, sh(script)), env);
}

TEST_CASE("the job's environment gains key and owner and token after the inherited values", "[asan-local]") {
  Database database;
  const auto finished =
      run_script(database, "echo \"$DBLOCK_KEY|$DBLOCK_OWNER|$DBLOCK_TOKEN|$OTHER\"", {},
                 {"DBLOCK_KEY=outer", "DBLOCK_OWNER=outer", "DBLOCK_TOKEN=1", "OTHER=kept"});
  CHECK(finished.exit == exited(0));
  const std::string token = database.column("k", "token");
  CHECK(finished.out.starts_with("k|"));
  CHECK(finished.out.ends_with("|" + token + "|kept\n"));
  CHECK_FALSE(says(finished.out, "|outer|"));
  const auto names = run_script(database, "env | grep -c '^DBLOCK_KEY='", {}, {"DBLOCK_KEY=outer"});
  CHECK(names.out == "1\n");
}

TEST_CASE("the owner id in the job's environment is the one in the row") {
  const Database database;
  LiveRun process(database, {}, [](const TempDir& directory) {
    return sh(print_into(directory.file("up"), "echo $DBLOCK_OWNER") + "; sleep 60");
  });
  CHECK(read_file(process.file("up")) == database.column("k", "lock_value") + "\n");
  CHECK(database.column("k", "holder_pid") == std::to_string(process.pid()));
  CHECK(database.column("k", "kind") == "run");
}

TEST_CASE("an owner id reads host and pid and time and ends in 128 random bits") {
  const Database database;
  const std::string owner = run_script(database, "printf %s $DBLOCK_OWNER").out;
  INFO(owner);
  REQUIRE(owner.size() > 33);
  CHECK(owner[owner.size() - 33] == '-');
  CHECK(owner.find_first_not_of("0123456789abcdef", owner.size() - 32) == std::string::npos);
  const std::string named = run_script(database, "printf %s $DBLOCK_OWNER", {}, {"DBLOCK_HOLDER=pod-7"}).out;
  CHECK(named.starts_with("pod-7-"));
}

TEST_CASE("option -c runs a string by the shell") {
  const Database database;
  const auto finished = dblock(database, {"run", "--key", "k", "-c", "echo \"$0\" && exit 7"});
  CHECK(finished.exit == exited(7));
  CHECK(says(finished.out, "sh"));
}

TEST_CASE("the job keeps the directory and umask and inherited descriptors") {
  const Database database;
  const TempDir directory;
  write_file(directory.file("data"), "from descriptor 7");
  const int fd = ::open(directory.file("data").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(::dup3(fd, 77, O_CLOEXEC) == 77);
  auto spec =
      after("umask 0137", dblock_spawn(database, run_words("k", {}, sh("pwd; umask; cat /proc/self/fd/77"))));
  spec.cwd = directory.path();
  spec.keep_fds = {77};
  const auto finished = run_program(spec);
  CHECK(finished.out == directory.path() + "\n0137\nfrom descriptor 7");
  ::close(fd);
  ::close(77);
}

TEST_CASE("no descriptor of dblock reaches the job") {
  const Database database;
  const auto with = run_script(database, "exec ls /proc/self/fd");
  const auto without = run_program({.argv = sh("exec ls /proc/self/fd")});
  CHECK(with.out == without.out);
}

TEST_CASE("the guardian keeps no inherited descriptor and no directory") {
  const Database database;
  const TempDir directory;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  auto spec = dblock_spawn(database, run_words("k", {}, sleeping_job(directory)));
  spec.keep_fds = {ends[1]};
  spec.cwd = directory.path();
  Process process(spec);
  await_file(process, directory.file("up"));
  const pid_t guardian = guardian_of(process);
  const std::string theirs =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(ends[1])).string();
  CHECK(wait_until([&] {
    for (const auto& file : open_files(guardian)) {
      if (file.find(theirs) != std::string::npos) return false;
    }
    return std::filesystem::read_symlink("/proc/" + std::to_string(guardian) + "/cwd") == "/";
  }));
  CHECK(proc_info(guardian).session == guardian);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("ignored signals stay ignored in the job and the mask stays empty", "[asan-local]") {
  const Database database;
  auto spec =
      dblock_spawn(database, run_words("k", {}, {"/bin/grep", "-E", "SigIgn|SigBlk", "/proc/self/status"}));
  const auto reference = [](const Spawn& like) {
    Spawn plain = like;
    plain.argv = {"/bin/grep", "-E", "SigIgn|SigBlk", "/proc/self/status"};
    return run_program(plain).out;
  };
  CHECK(run_program(spec).out == reference(spec));
  spec.ignored_signals = {SIGHUP, SIGINT, SIGPIPE, SIGUSR1, SIGTERM};
  CHECK(run_program(spec).out == reference(spec));
}

TEST_CASE("an inherited ignored SIGCHLD does not hide the job's status") {
  const Database database;
  auto spec = dblock_spawn(database, run_words("k", {}, sh("exit 9")));
  spec.ignored_signals = {SIGCHLD};
  CHECK(run_program(spec).exit == exited(9));
}

TEST_CASE("under nohup a hang-up does not end the run") {
  const Database database;
  const TempDir directory;
  auto spec = dblock_spawn(database, run_words("k", {},
                                               sh("trap 'touch " + directory.file("usr1") + "' USR1; " +
                                                  until_told(directory) + "; exit 5")));
  spec.ignored_signals = {SIGHUP};
  Process process(spec);
  await_file(process, directory.file("up"));
  process.signal(SIGHUP);
  process.signal(SIGUSR1);  // dblock is told of the lower number first
  await_file(process, directory.file("usr1"));
  write_file(directory.file("go"), "");
  CHECK(process.wait() == exited(5));
  CHECK_FALSE(says(process.err(), "SIGHUP"));
}

TEST_CASE("signals sent to dblock are forwarded to the job once each, and TERM ends it",
          "[tsan][asan-local]") {
  const Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  Process process(dblock_spawn(database, run_words("k", {}, {job_binary(), "signals", log})));
  await_file(process, log);
  std::string expected = "ready\n";
  for (const auto& [number, name] : {std::pair{SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGWINCH, "WINCH"}}) {
    process.signal(number);
    expected += std::string(name) + " user\n";
    CHECK(wait_until([&] { return read_file(log) == expected; }));
  }
  process.signal(SIGTERM);
  CHECK(process.wait() == exited(0));  // the job's own status: it handles TERM and exits 0
  CHECK(read_file(log) == expected + "TERM user\n");
}

TEST_CASE("QUIT sent to dblock is the job's affair: forwarded once, and no stop") {
  const Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  Process process(dblock_spawn(
      database, run_words("k", {"--kill-grace", "50ms"},
                          sh("trap 'echo quit >>" + log + "' QUIT; " + until_told(directory) + "; exit 5"))));
  await_file(process, directory.file("up"));
  std::string expected;
  for (int times = 0; times < 3; ++times) {
    process.signal(SIGQUIT);
    expected += "quit\n";
    CHECK(wait_until([&] { return read_file(log) == expected; }));
  }
  write_file(directory.file("go"), "");
  CHECK(process.wait() == exited(5));
  CHECK(read_file(log) == expected);
}

// As a service manager or a CI runner does.
TEST_CASE("TERM to every process at once, the guardian among them, ends the job in order",
          "[safety][asan-server]") {
  Database database;
  LiveRun process(database, {"--kill-grace", "10s"}, [](const TempDir& directory) {
    return sh("trap '" + await_in_shell(directory.file("go")) + "; exit 3' TERM; touch " +
              directory.file("up") + "; " + k_for_ever);
  });
  const pid_t guardian = guardian_of(process);
  const pid_t job = job_of(process);
  for (const pid_t pid : process.tree()) ::kill(pid, SIGTERM);
  for (const pid_t pid : process.tree()) ::kill(pid, SIGTERM);
  CHECK(alive(guardian));
  CHECK(database.has_holder("k"));
  CHECK(alive(job));
  CHECK(process.end() == exited(3));
  CHECK(process.tree().empty());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("TERM to every process at once leaves nothing of a job that ignores it", "[safety]") {
  Database database;
  LiveRun process(database, {"--kill-grace", "300ms"}, tree_job);
  for (const pid_t pid : process.tree()) ::kill(pid, SIGTERM);
  CHECK(process.wait() == killed_by(SIGTERM));
  CHECK(process.tree().empty());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a job that ignores TERM is killed after the grace and the lock released", "[tsan][safety]") {
  Database database;
  LiveRun process(database, {"--kill-grace", "500ms"}, [](const TempDir& directory) {
    return sh("trap '' TERM; touch " + directory.file("up") + "; while :; do sleep 0.1; done");
  });
  process.signal(SIGTERM);
  CHECK(process.wait() == killed_by(SIGKILL));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(process.tree().empty());
}

TEST_CASE("TERM reaches the whole tree and run ends with nothing left", "[safety]") {
  Database database;
  LiveRun process(database, {"--kill-grace", "500ms"}, tree_job);
  process.signal(SIGTERM);
  CHECK(process.wait().signalled);
  CHECK(process.tree().empty());
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("the first signal can be chosen") {
  const Database database;
  const auto finished = run_script(database, std::string("trap 'echo got usr1; exit 0' USR1; ") + k_for_ever,
                                   {"--max-runtime", "300ms", "--signal", "USR1"});
  CHECK(finished.exit == exited(124));
  CHECK(finished.out == "got usr1\n");
}

LiveRun::Job commented_job(const std::string& comment) {
  return [=](const TempDir& directory) {
    return sh("touch " + directory.file("up") + "; sleep 60 # " + comment);
  };
}

TEST_CASE("the note and only the program's name are stored by default") {
  Database database;
  REQUIRE(run_script(database, "true # secret-argument", {"--note", "nightly ETL"}).exit == exited(0));
  LiveRun process(database, {"--note", "nightly ETL"}, commented_job("secret-argument"));
  CHECK(database.column("k", "holder_note") == "nightly ETL");
  CHECK_FALSE(says(database.column("k", "holder_command"), "secret-argument"));
  CHECK(says(database.column("k", "holder_command"), "sh"));
  CHECK(database.column("k", "holder_user") != "");
}

TEST_CASE("record-args stores the whole command") {
  Database database;
  LiveRun process(database, {"--record-args"}, commented_job("told"));
  CHECK(says(database.column("k", "holder_command"), "# told"));
}

TEST_CASE("the default note is the CI job's url") {
  Database database;
  LiveRun process(database, {}, sleeping_job, "k", {"CI=true", "CI_JOB_URL=https://git.example/job/42"});
  CHECK(database.column("k", "holder_note") == "https://git.example/job/42");
}

TEST_CASE("make -j hands its job server on through dblock") {
  DBLOCK_NEEDS(why_no_program("make"));
  const Database database;
  const TempDir directory;
  write_file(directory.file("Makefile"),
             "all: a b\na b:\n\t+" + dblock_binary() +
                 " run --key $@ -- make --no-print-directory leaf\nleaf:\n\t@echo leaf\n");
  auto spec = dblock_spawn(database, {});
  spec.argv = {"make", "-j2", "-C", directory.path()};
  const auto finished = run_program(spec);
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK_FALSE(says(finished.err, "jobserver unavailable"));
  CHECK(count_of(finished.out, "leaf\n") >= 2);
}

}  // namespace
}  // namespace dblock::test
