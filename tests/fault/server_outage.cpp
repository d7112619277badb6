// The server away for a while: short outages do not disturb the job, long ones end it before expire_time
// (I4).
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/proxy.hpp"

namespace dblock::test {
namespace {

const Words k_short_lease{"--ttl", "3s", "--heartbeat", "400ms", "--kill-grace", "500ms"};

TEST_CASE("a server frozen for longer than the ttl ends the whole tree before expire_time with 76",
          "[server][tsan]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  auto words = run_words("k", k_short_lease, tree_job(directory));
  words.insert(words.begin() + 3, {"--status-file", directory.file("status")});
  Process process(dblock_spawn(database, words));
  await_file(process, directory.file("up"));
  const auto job_tree = descendants_of(guardian_of(process));
  CHECK(process.tree().size() >= 6);  // dblock, guardian, job, two children, the one with its own session
  const long long expires = await_renewal(database);
  server.freeze();
  const pid_t guardian = guardian_of(process);
  const long long alive_at = last_seen_before([&] { return job_tree_dead(process, guardian); });
  CHECK(alive_at < expires);
  CHECK(process.wait(20s * slowness()) == exited(76));
  CHECK(ends_with_exit_line(process.err(), 76));
  INFO(process.err());
  // Where the job's death was seen late, the guardian is not dismissed: it goes when dblock has gone.
  CHECK(wait_until([&] { return process.tree().empty(); }));
  const auto status = nlohmann::json::parse(read_file(directory.file("status")));
  CHECK(status.at("outcome") == "lost");
  CHECK(status.at("exit_code") == 76);
  CHECK(status.at("stop").at("reason") == "deadline");
  server.thaw();
  CHECK_FALSE(job_tree.empty());
}

TEST_CASE("a network that swallows packets ends the tree before expire_time with 76", "[server]") {
  ServerDatabase database;
  const TempDir directory;
  Proxy proxy(database.server());
  auto spec = dblock_spawn(database, run_words("k", k_short_lease, tree_job(directory)));
  spec.env = {"DBLOCK_DB=" + proxy.url(database.name())};
  Process process(spec);
  await_file(process, directory.file("up"));
  const long long expires = await_renewal(database);
  proxy.stall();
  const pid_t guardian = guardian_of(process);
  const long long alive_at = last_seen_before([&] { return job_tree_dead(process, guardian); });
  CHECK(alive_at < expires);
  CHECK(process.wait(20s * slowness()) == exited(76));
}

TEST_CASE("a job that would have exited 0 after the lease was lost is 76 all the same", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  Process process(dblock_spawn(database, run_words("k", k_short_lease,
                                                   sh("trap 'exit 0' TERM; touch " + directory.file("up") +
                                                      "; while :; do sleep 0.05; done"))));
  await_file(process, directory.file("up"));
  server.freeze();
  CHECK(process.wait(20s * slowness()) == exited(76));
  server.thaw();
}

TEST_CASE("a server killed and gone for longer than the ttl is 76", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  Process process(dblock_spawn(database, run_words("k", k_short_lease, tree_job(directory))));
  await_file(process, directory.file("up"));
  const long long expires = await_renewal(database);
  server.stop_hard();
  const pid_t guardian = guardian_of(process);
  const long long alive_at = last_seen_before([&] { return job_tree_dead(process, guardian); });
  CHECK(alive_at < expires);
  CHECK(process.wait(20s * slowness()) == exited(76));
}

TEST_CASE("an outage shorter than the lease is survived", "[server][tsan]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  Process process(
      dblock_spawn(database, run_words("k", {"--ttl", "6s", "--heartbeat", "400ms", "--kill-grace", "500ms"},
                                       patient_job(directory))));
  await_file(process, directory.file("up"));
  await_renewal(database);
  server.freeze();
  pause_for(2500ms);
  server.thaw();
  await_renewal(database);
  write_file(directory.file("go"), "");
  CHECK(process.wait() == exited(5));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a server restart mid-run is survived with the same lease", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  for (const bool graceful : {true, false}) {
    const TempDir directory;
    Process process(dblock_spawn(
        database, run_words("k", {"--ttl", "12s", "--heartbeat", "500ms"}, patient_job(directory))));
    await_file(process, directory.file("up"));
    const std::string token = database.column("k", "token");
    if (graceful)
      server.stop_gracefully();
    else
      server.stop_hard();
    server.start();
    long long expires = 0;
    REQUIRE(wait_until([&] {
      try {
        expires = database.expires_micros("k");
        return true;
      } catch (const std::exception&) {
        return false;  // our own old connection
      }
    }));
    CHECK(wait_until([&] { return database.expires_micros("k") > expires; }));
    CHECK(database.column("k", "token") == token);
    write_file(directory.file("go"), "");
    CHECK(process.wait() == exited(5));
    CHECK_FALSE(database.has_holder("k"));
  }
}

TEST_CASE("killed connections are replaced and the run goes on", "[server]") {
  ServerDatabase database;
  const TempDir directory;
  Process process(dblock_spawn(
      database, run_words("k", {"--ttl", "6s", "--heartbeat", "300ms"}, patient_job(directory))));
  await_file(process, directory.file("up"));
  for (int round = 0; round < 3; ++round) {
    REQUIRE(wait_until([&] {
      const auto ids = database.sessions();
      return !ids.empty() && database.kill_session(ids.front());
    }));
    await_renewal(database);
  }
  write_file(directory.file("go"), "");
  CHECK(process.wait() == exited(5));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a server that turns read-only for a while is survived", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  Process process(
      dblock_spawn(database, run_words("k", {"--ttl", "6s", "--heartbeat", "300ms", "--kill-grace", "500ms"},
                                       patient_job(directory))));
  await_file(process, directory.file("up"));
  database.sql("SET GLOBAL read_only = 1");
  REQUIRE(wait_until([&] { return says(process.err(), "trying again"); }));
  database.sql("SET GLOBAL read_only = 0");
  await_renewal(database);
  write_file(directory.file("go"), "");
  CHECK(process.wait() == exited(5));
}

TEST_CASE("a row locked by somebody's transaction for a while is survived", "[server]") {
  ServerDatabase database;
  const TempDir directory;
  Process process(dblock_spawn(
      database, run_words("k", {"--ttl", "12s", "--heartbeat", "300ms"}, patient_job(directory))));
  await_file(process, directory.file("up"));
  Connection other(database.server(), "root", database.name());
  other.sql("START TRANSACTION");
  other.sql("SELECT * FROM dblock_lock WHERE lock_key = 'k' FOR UPDATE");
  REQUIRE(wait_until([&] { return says(process.err(), "trying again"); }));
  other.sql("ROLLBACK");
  await_renewal(database);
  write_file(directory.file("go"), "");
  CHECK(process.wait() == exited(5));
}

TEST_CASE("a global read lock for longer than the ttl ends the job before expire_time", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  Process process(dblock_spawn(database, run_words("k", k_short_lease, tree_job(directory))));
  await_file(process, directory.file("up"));
  const long long expires = await_renewal(database);
  Connection backup(database.server());
  backup.sql("FLUSH TABLES WITH READ LOCK");
  const pid_t guardian = guardian_of(process);
  const long long alive_at = last_seen_before([&] { return job_tree_dead(process, guardian); });
  // A renewal may have slipped in before the lock was granted.
  CHECK(alive_at < std::max(expires, database.expires_micros("k")));
  CHECK(process.wait(20s * slowness()) == exited(76));
  backup.sql("UNLOCK TABLES");
}

TEST_CASE("a job that ends while the server is away keeps its own code with one warning", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  const TempDir directory;
  auto words = run_words("k",
                         {"--ttl", "3s", "--heartbeat", "400ms", "--kill-grace", "500ms", "--status-file",
                          directory.file("status")},
                         patient_job(directory));
  Process process(dblock_spawn(database, words));
  await_file(process, directory.file("up"));
  await_renewal(database);
  server.freeze();
  write_file(directory.file("go"), "");
  CHECK(process.wait(30s * slowness()) == exited(5));
  INFO(process.err());
  CHECK(count_of(process.err(), "dblock: ") == 1);
  CHECK(process.err().find("dblock: exit") == std::string::npos);
  const auto status = nlohmann::json::parse(read_file(directory.file("status")));
  CHECK(status.at("release") == "unknown");
  CHECK(status.at("exit_code") == 5);
  server.thaw();
}

}  // namespace
}  // namespace dblock::test
