// Hooks where it counts: the job is stopped in time, and the lock is given back, whatever they do.
#include <algorithm>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"

namespace dblock::test {
namespace {

using std::chrono::steady_clock;

const Words k_hooked_lease{"--ttl", "4s", "--heartbeat", "400ms", "--kill-grace", "500ms"};

std::string note_in(const std::string& file) {
  return "env >" + file + ".$$ && mv " + file + ".$$ " + file;
}

pid_t pid_in(const std::string& file) {
  return std::atoi(read_file(file).c_str());
}

// Writes its pid to FILE, has a daemon that writes its own to FILE.daemon, and neither ends by itself.
std::string brood_in(const std::string& file) {
  return "trap '' TERM; echo $$ >" + file + "; setsid sh -c 'trap \"\" TERM; echo $$ >" + file +
         ".daemon; exec sleep 600' & sleep 600";
}

void revoke(Database& database) {
  REQUIRE(
      dblock(database, {"release", "--key", "k", "--force", "--token", database.column("k", "token")}).exit ==
      exited(0));
}

// Every process of the job, behind the guardian, is dead.
bool job_dead(pid_t job) {
  return !alive(job) && descendants_of(job).empty();
}

TEST_CASE("the hook for a lost lease starts while the job is being stopped, and is told which lease it was") {
  Database database;
  const TempDir directory;
  // Stopped by TERM, the job waits for the hook: 0 when it came in time.
  const auto job = sh("trap 'while [ ! -e " + directory.file("told") + " ]; do sleep 0.02; done; touch " +
                      directory.file("seen") + "; exit' TERM; touch " + directory.file("up") +
                      "; while :; do sleep 0.05; done");
  Process process(dblock_spawn(
      database, run_words("k",
                          {"--ttl", "60s", "--heartbeat", "300ms", "--kill-grace", "20s", "--on-lost",
                           note_in(directory.file("told")) + "; echo started >>" + directory.file("count")},
                          job)));
  await_file(process, directory.file("up"));
  const std::string owner = database.column("k", "lock_value");
  const std::string token = database.column("k", "token");
  revoke(database);
  CHECK(process.wait(40s * slowness()) == exited(76));
  CHECK(std::filesystem::exists(directory.file("seen")));
  const std::string told = "\n" + read_file(directory.file("told"));
  CHECK(says(told, "\nDBLOCK_EVENT=lost\n"));
  CHECK(says(told, "\nDBLOCK_KEY=k\n"));
  CHECK(says(told, "\nDBLOCK_OWNER=" + owner + "\n"));
  CHECK(says(told, "\nDBLOCK_TOKEN=" + token + "\n"));
  CHECK(says(told, "\nDBLOCK_MESSAGE=lock \"k\" was revoked"));
  CHECK_FALSE(says(told, "\nDBLOCK_HELD="));
  CHECK(wait_until([&] { return !read_file(directory.file("count")).empty(); }));
  CHECK(read_file(directory.file("count")) == "started\n");
}

TEST_CASE("a hook that hangs delays neither the stop of a revoked job nor the release and the exit") {
  Database database;
  const TempDir directory;
  Process process(dblock_spawn(database, run_words("k",
                                                   {"--ttl", "60s", "--heartbeat", "500ms", "--kill-grace",
                                                    "500ms", "--on-lost", brood_in(directory.file("hook"))},
                                                   tree_job(directory))));
  await_file(process, directory.file("up"));
  const pid_t job = job_of(process);
  const auto before = steady_clock::now();
  revoke(database);
  CHECK(process.wait() == exited(76));
  CHECK(steady_clock::now() - before < 5s * slowness());
  CHECK(ends_with_exit_line(process.err(), 76));
  CHECK(job_dead(job));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(wait_until([&] { return alive(pid_in(directory.file("hook.daemon"))); }));
  CHECK(alive(pid_in(directory.file("hook"))));  // not taken for something the job left
}

TEST_CASE("a dead database and a hook that hangs: the job is dead before expire_time", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  Process process(dblock_spawn(
      database, run_words("k", with(k_hooked_lease, {"--on-lost", brood_in(directory.file("hook"))}),
                          tree_job(directory))));
  await_file(process, directory.file("up"));
  const pid_t guardian = guardian_of(process);
  const auto job_tree = descendants_of(guardian);
  REQUIRE(job_tree.size() >= 4);
  const long long expires = await_renewal(database);
  server.freeze();
  const long long alive_at =
      last_seen_before([&] { return std::none_of(job_tree.begin(), job_tree.end(), alive); });
  CHECK(alive_at < expires);
  CHECK(process.wait(20s * slowness()) == exited(76));
  CHECK(ends_with_exit_line(process.err(), 76));
  CHECK(wait_until([&] { return alive(pid_in(directory.file("hook.daemon"))); }));
  server.thaw();
}

TEST_CASE("the hook for a lost lease starts at the first signal of self-fencing, not after the stop",
          "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  const auto job = sh("trap 'while [ ! -e " + directory.file("told") + " ]; do sleep 0.02; done; touch " +
                      directory.file("seen") + "; exit' TERM; touch " + directory.file("up") +
                      "; while :; do sleep 0.05; done");
  Process process(dblock_spawn(database, run_words("k",
                                                   {"--ttl", "12s", "--heartbeat", "400ms", "--kill-grace",
                                                    "8s", "--on-lost", note_in(directory.file("told"))},
                                                   job)));
  await_file(process, directory.file("up"));
  server.freeze();
  CHECK(process.wait(40s * slowness()) == exited(76));
  CHECK(std::filesystem::exists(directory.file("seen")));
  CHECK(says(read_file(directory.file("told")), "DBLOCK_MESSAGE=lock \"k\" could not be renewed in time"));
  server.thaw();
}

TEST_CASE("kill -9 of dblock with a hook running: the job dies, the lock is freed, the hook ends by itself") {
  Database database;
  const TempDir directory;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "100s"}).exit == exited(0));
  Process process(dblock_spawn(
      database, run_words("k",
                          {"--wait", "60s", "--ttl", "60s", "--on-wait",
                           "echo $$ >" + directory.file("hook") + "; while [ ! -e " + directory.file("end") +
                               " ]; do sleep 0.05; done; touch " + directory.file("ended")},
                          tree_job(directory))));
  REQUIRE(wait_until([&] { return pid_in(directory.file("hook")) > 0; }));
  REQUIRE(dblock(database, {"release", "--key", "k", "--owner", database.column("k", "lock_value")}).exit ==
          exited(0));
  await_file(process, directory.file("up"));
  const pid_t job = job_of(process);
  const pid_t hook = pid_in(directory.file("hook"));
  process.signal(SIGKILL);
  CHECK(wait_until([&] { return job_dead(job); }));
  CHECK(wait_until([&] { return !database.has_holder("k"); }));
  CHECK(alive(hook));
  write_file(directory.file("end"), "");
  CHECK(wait_until([&] { return std::filesystem::exists(directory.file("ended")); }));
  CHECK(wait_until([&] { return process.tree().empty(); }));
}

TEST_CASE(
    "kill -9 of the guardian with a hook running: dblock stops the job, releases, and spares the hook") {
  Database database;
  const TempDir directory;
  REQUIRE(dblock(database, {"acquire", "--key", "k", "--ttl", "100s"}).exit == exited(0));
  Process process(dblock_spawn(
      database,
      run_words("k", {"--wait", "60s", "--on-wait", brood_in(directory.file("hook"))}, tree_job(directory))));
  REQUIRE(wait_until([&] { return pid_in(directory.file("hook.daemon")) > 0; }));
  REQUIRE(dblock(database, {"release", "--key", "k", "--owner", database.column("k", "lock_value")}).exit ==
          exited(0));
  await_file(process, directory.file("up"));
  const pid_t job = job_of(process);
  ::kill(guardian_of(process), SIGKILL);
  CHECK(process.wait() == exited(70));
  CHECK(job_dead(job));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(alive(pid_in(directory.file("hook"))));
  CHECK(alive(pid_in(directory.file("hook.daemon"))));
}

TEST_CASE("hooks that were frozen or killed hold up nothing") {
  Database database;
  for (const int number : {SIGSTOP, SIGKILL}) {
    const TempDir directory;
    Process process(dblock_spawn(
        database,
        run_words("k", {"--ttl", "60s", "--heartbeat", "300ms", "--kill-grace", "500ms", "--on-lost", "true"},
                  tree_job(directory))));
    await_file(process, directory.file("up"));
    pid_t starter = 0;
    REQUIRE(wait_until([&] {  // it takes its name when it first runs
      for (const pid_t pid : process.tree()) {
        if (proc_info(pid).name == "dblock-hooks") starter = pid;
      }
      return starter > 0;
    }));
    ::kill(starter, number);
    if (number == SIGKILL) REQUIRE(wait_until([&] { return !alive(starter); }));
    revoke(database);
    CHECK(process.wait() == exited(76));
    CHECK_FALSE(database.has_holder("k"));
    const bool warned = says(process.err(), "the --on-lost command could not be started: ");
    CHECK(warned == (number == SIGKILL));
    CHECK(ends_with_exit_line(process.err(), 76));
  }
}

}  // namespace
}  // namespace dblock::test
