// A stop that may take longer than a lease: the lease is renewed meanwhile, and where it is not, it rules.
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// A stop grace that outlives any lease of these cases, and any test.
Words long_stop(const std::string& ttl) {
  return {"--ttl", ttl, "--heartbeat", "400ms", "--kill-grace", "500ms", "--stop-grace", "1h"};
}

// A run whose job notes its TERM, and ends when it is told to.
class SlowToStop {
 public:
  explicit SlowToStop(const Database& database, const Words& options)
      : run(database, options, [](const TempDir& own) {
          return sh("trap 'touch " + own.file("stopping") + "; " + await_in_shell(own.file("cleaned")) +
                    "; exit 9' TERM; touch " + own.file("up") + "; " + k_for_ever);
        }) {}

  void await_stop() { await_file(run, run.file("stopping")); }
  void ask_to_stop() {
    run.signal(SIGTERM);
    await_stop();
  }
  void let_end() const { write_file(run.file("cleaned"), ""); }
  // When the last look began that found the job alive, in microseconds since the epoch.
  [[nodiscard]] long long last_seen() const {
    return last_seen_before([&] { return job_tree_dead(run, guardian_); });
  }
  [[nodiscard]] pid_t guardian() const { return guardian_; }

  LiveRun run;

 private:
  const pid_t guardian_ = guardian_of(run);
};

TEST_CASE("a job that needs longer than its lease to stop keeps the lock, renewed, until it has ended",
          "[safety][asan-local]") {
  Database database;
  SlowToStop slow(database, long_stop("3s"));
  slow.ask_to_stop();
  const long long expires = database.expires_micros("k");
  REQUIRE(wait_until([&] { return database.expires_micros("k") > expires + 3'000'000; }, 60s * slowness()));
  CHECK(slow.run.running());
  CHECK(run_true(database) == exited(75));
  slow.run.signal(SIGTERM);  // a second request changes nothing
  await_renewal(database);
  slow.let_end();
  CHECK(slow.run.wait() == exited(9));
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a server that dies during a long stop: the job is dead before expire_time, and the lease is lost",
          "[server][safety]") {
  Server server;
  ServerDatabase database(server.address());
  SlowToStop slow(database, long_stop("4s"));
  slow.ask_to_stop();
  const long long expires = await_renewal(database);
  server.freeze();
  CHECK(slow.last_seen() < expires);
  server.thaw();
  check_ends(slow.run, 76, {"could not be renewed in time"}, 30s * slowness());
}

TEST_CASE("a dblock frozen in the midst of a long stop: the guardian has the job dead before expire_time",
          "[safety][asan-local]") {
  Database database;
  SlowToStop slow(database, long_stop("3s"));
  slow.ask_to_stop();
  slow.run.freeze();
  const long long expires = database.expires_micros("k");
  CHECK(slow.last_seen() < expires);
  CHECK(database.has_holder("k"));
  slow.run.signal(SIGCONT);
  CHECK(slow.run.wait() == exited(76));
}

TEST_CASE("kill -9 of dblock in the midst of a long stop: the job is dead and the lock is free at once",
          "[safety]") {
  Database database;
  SlowToStop slow(database, {"--ttl", "3h", "--stop-grace", "1h"});
  slow.ask_to_stop();
  slow.run.signal(SIGKILL);
  CHECK(soon_free(database));
  CHECK(soon_gone(slow.run));
}

TEST_CASE("a guardian frozen in the midst of a long stop: dblock has the job dead before expire_time",
          "[server][safety]") {
  Server server;
  ServerDatabase database(server.address());
  SlowToStop slow(database, long_stop("4s"));
  slow.ask_to_stop();
  const long long expires = await_renewal(database);
  ::kill(slow.guardian(), SIGSTOP);
  server.freeze();
  CHECK(slow.last_seen() < expires);
  server.thaw();
  CHECK(slow.run.wait(30s * slowness()) == exited(76));
}

TEST_CASE("a lease that is revoked during a long stop leaves the job the kill grace", "[safety]") {
  Database database;
  SlowToStop slow(database,
                  {"--ttl", "3h", "--heartbeat", "400ms", "--kill-grace", "500ms", "--stop-grace", "1h"});
  slow.ask_to_stop();
  revoke(database);
  check_ends(slow.run, 76, {"was revoked"});
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a lease that is revoked by hand leaves the job the kill grace, whatever its stop grace",
          "[safety]") {
  Database database;
  SlowToStop slow(database,
                  {"--ttl", "3h", "--heartbeat", "400ms", "--kill-grace", "500ms", "--stop-grace", "1h"});
  revoke(database);
  check_ends(slow.run, 76);
}

TEST_CASE("a job that is replaced has its stop grace, and nobody the lock before it has ended", "[safety]") {
  Database database;
  SlowToStop slow(database, {"--ttl", "3h", "--heartbeat", "400ms", "--kill-grace", "300ms", "--stop-grace",
                             "1h", "--replaceable"});
  Process newer(dblock_spawn(database, run_words("k", {"--replace"}, {"true"})));
  slow.await_stop();
  CHECK_FALSE(wait_until([&] { return !slow.run.running(); }, 2s));  // several kill graces
  CHECK(newer.running());
  slow.let_end();
  CHECK(slow.run.wait() == exited(76));
  CHECK(newer.wait() == exited(0));
}

TEST_CASE("a job that is replaced is dead before its last lease ends, whatever its stop grace", "[safety]") {
  Database database;
  SlowToStop slow(database, with(long_stop("4s"), {"--replaceable"}));
  Process newer(dblock_spawn(database, run_words("k", {"--replace"}, {"true"})));
  slow.await_stop();
  const long long expires = database.expires_micros("k");
  CHECK(slow.last_seen() < expires);
  CHECK(slow.run.wait() == exited(76));
  CHECK(newer.wait() == exited(0));
}

}  // namespace
}  // namespace dblock::test
