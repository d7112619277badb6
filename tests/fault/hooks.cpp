// Hooks where it counts: the job is stopped in time, and the lock is given back, whatever they do.
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const Words k_hooked_lease{"--ttl", "4s", "--heartbeat", "400ms", "--kill-grace", "500ms"};

// Writes its pid to FILE, has a daemon that writes its own to FILE.daemon, and neither ends by itself.
std::string brood_in(const std::string& file) {
  return "trap '' TERM; echo $$ >" + file + "; setsid sh -c 'trap \"\" TERM; echo $$ >" + file +
         ".daemon; exec sleep 600' & sleep 600";
}

// Every process of the job, behind the guardian, is dead.
bool job_dead(pid_t job) {
  return !alive(job) && descendants_of(job).empty();
}

// Stopped by TERM, the job waits for the hook's file `told`, and ends with `seen` when it has come in time.
LiveRun::Job waits_for_hook(const TempDir& hooks) {
  return [&hooks](const TempDir& own) {
    return sh("trap '" + await_in_shell(hooks.file("told")) + "; touch " + hooks.file("seen") +
              "; exit' TERM; touch " + own.file("up") + "; " + k_for_ever);
  };
}

TEST_CASE(
    "the hook for a lost lease starts once, while the job is being stopped, and is told which lease it was",
    "[asan-server]") {
  Database database;
  const TempDir directory;
  LiveRun process(database,
                  {"--ttl", "60s", "--heartbeat", "300ms", "--kill-grace", "20s", "--on-lost",
                   print_into(directory.file("told"), "env") + "; echo started >>" + directory.file("count")},
                  waits_for_hook(directory));
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
  CHECK(soon_gone(process));  // a second start would have come and gone, too
  CHECK(read_file(directory.file("count")) == "started\n");
}

TEST_CASE("a hook that hangs delays neither the stop of a revoked job nor the release and the exit",
          "[safety]") {
  Database database;
  const TempDir directory;
  TreeRun process(database, {"--ttl", "1h", "--heartbeat", "500ms", "--kill-grace", "500ms", "--on-lost",
                             brood_in(directory.file("hook"))});
  revoke(database);
  check_ends(process, 76);
  CHECK(job_dead(process.job));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(wait_until([&] { return alive(pid_in(directory.file("hook.daemon"))); }));
  // Neither awaited, until it is killed at its limit, nor taken for something the job left.
  CHECK(alive(pid_in(directory.file("hook"))));
}

TEST_CASE("a dead database and a hook that hangs: the job is dead before expire_time", "[server][safety]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  TreeRun process(database, with(k_hooked_lease, {"--on-lost", brood_in(directory.file("hook"))}));
  const auto job_tree = descendants_of(process.guardian);
  REQUIRE(job_tree.size() >= 4);
  const long long expires = await_renewal(database);
  server.freeze();
  CHECK(last_alive(job_tree) < expires);
  check_ends(process, 76, {}, 20s * slowness());
  CHECK(wait_until([&] { return alive(pid_in(directory.file("hook.daemon"))); }));
  server.thaw();
}

TEST_CASE("the hook for a lost lease starts at the first signal of self-fencing, not after the stop",
          "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  LiveRun process(database,
                  {"--ttl", "12s", "--heartbeat", "400ms", "--kill-grace", "8s", "--on-lost",
                   print_into(directory.file("told"), "env")},
                  waits_for_hook(directory));
  server.freeze();
  CHECK(process.wait(40s * slowness()) == exited(76));
  CHECK(std::filesystem::exists(directory.file("seen")));
  CHECK(says(read_file(directory.file("told")), "DBLOCK_MESSAGE=lock \"k\" could not be renewed in time"));
  server.thaw();
}

TEST_CASE("kill -9 of dblock with a hook running: the job dies, the lock is freed, the hook ends by itself",
          "[safety][asan-local]") {
  Database database;
  const TempDir directory;
  const std::string owner = take(database, "k", {"--ttl", "100s"});
  Process process(dblock_spawn(
      database, run_words("k",
                          {"--wait", "60s", "--ttl", "60s", "--on-wait",
                           "echo $$ >" + directory.file("hook") + "; " +
                               await_in_shell(directory.file("end")) + "; touch " + directory.file("ended")},
                          tree_job(directory))));
  REQUIRE(wait_until([&] { return pid_in(directory.file("hook")) > 0; }));
  release_lease(database, owner);
  await_file(process, directory.file("up"));
  const pid_t job = job_of(process);
  const pid_t hook = pid_in(directory.file("hook"));
  process.signal(SIGKILL);
  CHECK(wait_until([&] { return job_dead(job); }));
  CHECK(soon_free(database));
  CHECK(alive(hook));
  write_file(directory.file("end"), "");
  CHECK(wait_until([&] { return std::filesystem::exists(directory.file("ended")); }));
  CHECK(soon_gone(process));
}

TEST_CASE("kill -9 of the guardian with a hook running: dblock stops the job, releases, and spares the hook",
          "[safety]") {
  Database database;
  const TempDir directory;
  const std::string owner = take(database, "k", {"--ttl", "100s"});
  Process process(dblock_spawn(
      database,
      run_words("k", {"--wait", "60s", "--on-wait", brood_in(directory.file("hook"))}, tree_job(directory))));
  REQUIRE(wait_until([&] { return pid_in(directory.file("hook.daemon")) > 0; }));
  release_lease(database, owner);
  await_file(process, directory.file("up"));
  const pid_t job = job_of(process);
  ::kill(guardian_of(process), SIGKILL);
  CHECK(process.wait() == exited(70));
  CHECK(job_dead(job));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(alive(pid_in(directory.file("hook"))));
  CHECK(alive(pid_in(directory.file("hook.daemon"))));
}

TEST_CASE("hooks that were frozen or killed hold up nothing", "[asan-local]") {
  Database database;
  for (const int number : {SIGSTOP, SIGKILL}) {
    TreeRun process(database,
                    {"--ttl", "60s", "--heartbeat", "300ms", "--kill-grace", "500ms", "--on-lost", "true"});
    std::vector<pid_t> starter;  // it takes its name when it first runs
    REQUIRE(wait_until([&] { return !(starter = named("dblock-hooks", process.tree())).empty(); }));
    ::kill(starter.front(), number);
    if (number == SIGKILL) REQUIRE(wait_until([&] { return !alive(starter.front()); }));
    revoke(database);
    check_ends(process, 76);
    CHECK_FALSE(database.has_holder("k"));
    const bool warned = says(process.err(), "the --on-lost command could not be started: ");
    CHECK(warned == (number == SIGKILL));
  }
}

}  // namespace
}  // namespace dblock::test
