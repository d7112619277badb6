// How a run ended is told alike by its exit code, its status file, its --on-end command and its row, also
// where the guardian dies or is slow at the wrong moment.
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/pty.hpp"
#include "support/steps.hpp"
#include "support/tracer.hpp"

namespace dblock::test {
namespace {

bool has_signal_pending(pid_t process) {
  return !says(read_file("/proc/" + std::to_string(process) + "/status"), "ShdPnd:\t0000000000000000");
}

// Where a run tells how it ended, beside its row.
class Told {
 public:
  [[nodiscard]] Words options() const {
    return {"--status-file", directory_.file("status"), "--on-end",
            print_into(directory_.file("hook"), "echo \"$DBLOCK_OUTCOME $DBLOCK_EXIT_CODE\"")};
  }

  void check(const Database& database, const std::string& outcome, int code,
             const std::string& row_outcome) const {
    const auto status = nlohmann::json::parse(read_file(directory_.file("status")));
    CHECK(status.at("outcome") == outcome);
    CHECK(status.at("exit_code") == code);
    REQUIRE(wait_until([&] { return std::filesystem::exists(directory_.file("hook")); }));
    CHECK(read_file(directory_.file("hook")) == outcome + " " + std::to_string(code) + "\n");
    CHECK(database.column("k", "last_outcome") == row_outcome);
    if (row_outcome != "not_run") CHECK(database.column("k", "last_exit_code") == std::to_string(code));
  }

 private:
  TempDir directory_;
};

TEST_CASE("a job that is killed since its guardian died has ended with 70 by its row, too", "[safety]") {
  const Database database;
  const Told told;
  LiveRun run(database, told.options());
  ::kill(guardian_of(run), SIGKILL);
  CHECK(run.wait() == exited(70));
  told.check(database, "error", 70, "signalled");
}

TEST_CASE("a run whose guardian died while the job's leftovers ran is no success to --once-per", "[safety]") {
  const Database database;
  const Told told;
  LiveRun run(database, with(told.options(), {"-v", "--once-per", "1h"}),
              [](const TempDir& directory) { return sh("sleep 600 & touch " + directory.file("up")); });
  const pid_t guardian = guardian_of(run);
  REQUIRE(soon_says(run, "the lock is kept until"));
  ::kill(guardian, SIGKILL);
  CHECK(run.wait() == exited(70));
  told.check(database, "error", 70, "signalled");
}

// Kills the guardian once it has waited for the job, and before it can tell of that.
void kill_with_the_status(pid_t guardian, pid_t job, const std::function<void()>& end_job) {
  REQUIRE(halt(guardian));
  end_job();
  while (::kill(job, 0) == 0) {
    REQUIRE(::ptrace(PTRACE_SYSCALL, guardian, nullptr, nullptr) == 0);
    REQUIRE(::waitpid(guardian, nullptr, __WALL) == guardian);
  }
  ::kill(guardian, SIGKILL);
  REQUIRE(::waitpid(guardian, nullptr, __WALL) == guardian);
}

TEST_CASE("a run whose job's status is lost with the guardian has not failed to run", "[safety]") {
  DBLOCK_NEEDS(why_no_trace());
  const Database database;
  const Told told;
  LiveRun run(database, with(told.options(), {"--keep-on-failure", "1h"}));
  kill_with_the_status(guardian_of(run), job_of(run), [&] { run.tell(); });
  CHECK(run.wait() == exited(70));
  told.check(database, "error", 70, "signalled");
  CHECK(run_true(database) == exited(75));
}

TEST_CASE("a stopped run whose job's status is lost with the guardian counts as killed", "[safety]") {
  DBLOCK_NEEDS(why_no_trace());
  const Database database;
  const Told told;
  LiveRun run(database, with(told.options(), {"--keep-on-failure", "1h"}), sleeping_job);
  const pid_t job = job_of(run);
  kill_with_the_status(guardian_of(run), job, [&] {
    run.signal(SIGTERM);
    REQUIRE(wait_until([&] { return !has_signal_pending(run.pid()); }));  // dblock has taken it
    ::kill(job, SIGKILL);
  });
  CHECK(run.wait() == killed_by(SIGKILL));
  told.check(database, "signalled", 128 + SIGKILL, "signalled");
  CHECK(run_true(database) == exited(75));
}

// The job is halted at its gate, so that --max-runtime is over before its exec fails. A busy machine may look
// for the signal late, so the grace is long.
TEST_CASE("a job that cannot be started has not run, also when --max-runtime is over by then") {
  DBLOCK_NEEDS(why_no_trace());
  const Database database;
  const Told told;
  const TempDir directory;
  const std::string program = directory.file("program");
  write_file(program, "#!/no/such/interpreter\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string owner = take(database);
  Process run = waiting_run(database,
                            with(told.options(), {"--wait", "60s", "--max-runtime", "100ms", "--signal",
                                                  "WINCH", "--kill-grace", "30s"}),
                            {program});
  const pid_t job = job_of(run);
  REQUIRE(halt(job));
  release_lease(database, owner);
  REQUIRE(wait_until([&] { return has_signal_pending(job); }));  // WINCH, which ends nothing
  REQUIRE(::ptrace(PTRACE_DETACH, job, nullptr, nullptr) == 0);
  CHECK(run.wait() == exited(126));
  told.check(database, "error", 126, "not_run");
}

// The job notes the CONT with which the guardian begins a stop: then dblock has taken Ctrl-C.
TEST_CASE("a job that had to be killed after Ctrl-C died of it, whoever records that", "[safety]") {
  const Database database;
  const TempDir directory;
  const std::string job = "trap '' INT; trap 'touch " + directory.file("stopped") + "' CONT; touch " +
                          directory.file("up") + "; while :; do sleep 0.05; done";
  Terminal terminal(dblock_spawn(database, run_words("k", {"--kill-grace", "1s"}, sh(job))));
  REQUIRE(wait_until([&] { return std::filesystem::exists(directory.file("up")); }));
  terminal.send(k_ctrl_c);
  REQUIRE(wait_until([&] { return std::filesystem::exists(directory.file("stopped")); }));
  REQUIRE(freeze(terminal.pid()));
  REQUIRE(wait_until([&] { return terminal.tree().size() == 2; }));  // dblock and its guardian
  pause_for(200ms);                                                  // the guardian knows what it has killed
  ::kill(terminal.pid(), SIGKILL);
  CHECK(terminal.wait() == killed_by(SIGKILL));
  CHECK(soon_free(database));
  CHECK(database.column("k", "last_outcome") == "signalled");
  CHECK(database.column("k", "last_exit_code") == std::to_string(128 + SIGINT));
}

}  // namespace
}  // namespace dblock::test
