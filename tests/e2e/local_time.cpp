// The embedded store and time: a step of the wall clock changes nothing, as with a server, and another boot
// ends every lease.
#include <deque>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// dblock's environment where the wall clock is a day away, and where the monotonic clocks are shifted as well
// for all who ask the C library.
std::vector<Words> shifted_clocks() {
  std::vector<Words> all;
  for (const char* shift : {"+1d", "-1d"}) {
    const Words env = clock_shifted_by(shift);
    all.push_back(env);
    all.push_back(env);
    all.back().emplace_back("FAKETIME_DONT_FAKE_MONOTONIC=1");
  }
  return all;
}

std::string told(const Words& env) {
  std::string text;
  for (const auto& word : env) text += word + " ";
  return text;
}

const Words k_acquire{"acquire", "--key", "k", "--ttl", "60s", "--margin", "10s"};

unsigned long long token_of(const Finished& finished) {
  INFO(finished.err);
  REQUIRE(finished.exit == exited(0));
  return std::stoull(finished.out);
}

TEST_CASE("the clock is shifted at all in these cases", "[local]") {
  DBLOCK_NEEDS(why_no_faketime());
  for (const auto& env : shifted_clocks()) {
    const auto date = run_program({.argv = {"date", "+%s"}, .env = env});
    INFO(told(env));
    CHECK(std::abs(std::stoll(date.out) - realtime_micros() / 1'000'000) > 80'000);
  }
}

TEST_CASE("a held lease is refused under a shifted clock, whichever side is shifted", "[local][safety]") {
  DBLOCK_NEEDS(why_no_faketime());
  for (const auto& env : shifted_clocks()) {
    INFO(told(env));
    const Database database;
    REQUIRE(dblock(database, k_acquire).exit == exited(0));
    CHECK(dblock(database, run_words("k", {}, {"true"}), env).exit == exited(75));
    CHECK(dblock(database, {"inspect", "--key", "k", "--exit-code"}, env).exit == exited(75));
    const auto shown = nlohmann::json::parse(dblock(database, {"--json", "inspect"}, env).out);
    const long remaining = shown.at("locks").at(0).at("remaining_ms");
    CHECK(remaining > 30'000);
    CHECK(remaining <= 60'000);
    CHECK(dblock(database, {"reap"}, env).exit == exited(0));
    CHECK(database.has_holder("k"));

    const Database theirs;
    REQUIRE(dblock(theirs, k_acquire, env).exit == exited(0));
    CHECK(run_true(theirs) == exited(75));
    CHECK(dblock(theirs, {"reap"}).exit == exited(0));
    CHECK(theirs.has_holder("k"));
  }
}

TEST_CASE("its owner renews and releases a lease under a shifted clock", "[local][safety]") {
  DBLOCK_NEEDS(why_no_faketime());
  for (const auto& env : shifted_clocks()) {
    INFO(told(env));
    const Database database;
    REQUIRE(dblock(database, k_acquire).exit == exited(0));
    const std::string owner = database.column("k", "lock_value");
    const long long before = database.expires_micros("k");
    CHECK(dblock(database, {"renew", "--key", "k", "--owner", owner}, env).exit == exited(0));
    const long long after = database.expires_micros("k");
    CHECK(after >= before);
    CHECK(after < before + 30'000'000);
    CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}, env).exit == exited(0));
    CHECK_FALSE(database.has_holder("k"));
  }
}

TEST_CASE("an expired lease is granted after its margin and not before under a shifted clock",
          "[local][safety]") {
  DBLOCK_NEEDS(why_no_faketime());
  for (const auto& env : shifted_clocks()) {
    INFO(told(env));
    Database database;
    REQUIRE(dblock(database, k_acquire).exit == exited(0));
    const auto first = std::stoull(database.column("k", "token"));
    database.age_until_expired("k", 5s);  // of a margin of 10 s
    CHECK(dblock(database, run_words("k", {}, {"true"}), env).exit == exited(75));
    database.age_until_expired("k", 11s);
    const Words run = run_words("k", {}, {"printenv", "DBLOCK_TOKEN"});
    const auto shifted = token_of(dblock(database, run, env));
    CHECK(shifted > first);
    CHECK(token_of(dblock(database, run)) > shifted);
  }
}

TEST_CASE("a job longer than its ttl is renewed under a shifted clock and never overlaps",
          "[local][safety]") {
  DBLOCK_NEEDS(why_no_faketime());
  struct Run {
    explicit Run(const Words& env)
        : clock(told(env)),
          live(database, {"--ttl", "6s", "--heartbeat", "500ms", "--margin", "0"}, patient_job, "k", env) {}
    std::string clock;
    Database database;
    LiveRun live;
    long long first_expiry = database.expires_micros("k");
  };
  std::deque<Run> runs;
  for (const auto& env : shifted_clocks()) runs.emplace_back(env);
  for (auto& run : runs) {
    INFO(run.clock);
    // Until the lease that was granted would be over.
    REQUIRE(wait_until([&] { return run.database.expires_micros("k") > run.first_expiry + 6'100'000; }));
    CHECK(dblock(run.database, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(75));
    CHECK(run.live.running());
    CHECK(run.live.end(5) == exited(5));
  }
}

TEST_CASE("steps of the clock while a job runs change nothing", "[safety]") {
  DBLOCK_NEEDS(why_no_faketime());
  for (const bool monotonic_too : {false, true}) {
    const Database database;
    const SteppedClock clock;
    LiveRun run(
        database, {"--heartbeat", "200ms"},
        [](const TempDir& directory) {
          return sh("touch " + directory.file("up") + "; while [ ! -e " + directory.file("go") +
                    " ]; do env -u LD_PRELOAD sleep 0.05; done; exit 7");
        },
        "k", clock.env(false, monotonic_too));
    for (const char* to : {"+1d", "-1d", "+400d", "+0"}) {
      INFO(to);
      clock.step(to);
      for (int renewals = 0; renewals < 2; ++renewals) {
        const long long expires = database.expires_micros("k");
        REQUIRE(wait_until([&] { return database.expires_micros("k") > expires || !run.running(); }));
      }
      CHECK(run_true(database) == exited(75));
    }
    const Exit exit = run.end();
    INFO(run.err());
    CHECK(exit == exited(7));
    CHECK_FALSE(database.has_holder("k"));
  }
}

// As after a reboot: the row is of another boot.
void make_of_another_boot(Database& database, const std::string& key) {
  database.set_text(key, "boot_id", "11111111-2222-4333-8444-555555555555");
  database.set_number(key, "boot_offset_us", 0);
}

TEST_CASE("another boot's lease is free at once and its token is exceeded", "[local][safety][asan-local]") {
  Database database;
  take(database, "k", {"--ttl", "30d"});
  make_of_another_boot(database, "k");
  const auto old_token = std::stoull(database.column("k", "token"));
  const std::string owner = database.column("k", "lock_value");
  CHECK(dblock(database, {"inspect", "--key", "k", "--exit-code"}).exit == exited(0));
  CHECK(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(76));
  CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(76));
  const auto run = dblock(database, run_words("k", {}, {"printenv", "DBLOCK_TOKEN"}));
  REQUIRE(run.exit == exited(0));
  CHECK(std::stoull(run.out) > old_token);
}

TEST_CASE("another boot's leases are reaped at once and told as abandoned", "[local][safety]") {
  Database database;
  take(database, "k", {"--ttl", "30d"});
  make_of_another_boot(database, "k");
  const std::string token = database.column("k", "token");
  const auto finished = dblock(database, {"reap"});
  INFO(finished.out << finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(says(finished.out, "k"));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(database.column("k", "last_outcome") == "abandoned");
  CHECK(database.column("k", "token") == token);
}

// As in a container of nspawn or LXC: what every process of this script reads as the boot's id is the
// container's.
std::string with_own_boot_id(const TempDir& directory, char digit) {
  const std::string file = directory.file(std::string("boot_id.") + digit);
  write_file(file, std::string(8, digit) + "-2222-4333-8444-555555555555\n");
  return "mount --bind " + file + " /proc/sys/kernel/random/boot_id\n";
}

TEST_CASE("containers of one kernel with boot ids of their own respect each other's leases",
          "[local][safety]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  Database database;
  const TempDir directory;
  const auto in_container = [&](char digit, const std::string& script) {
    return in_mount_namespace(with_own_boot_id(directory, digit) + script, {"DBLOCK_DB=" + database.url()});
  };
  const auto first = in_container('1', "$DBLOCK acquire --key k --ttl 60s\n");
  REQUIRE(first.exit == exited(0));
  CHECK(in_container('2', "$DBLOCK run --key k -- true\n").exit == exited(75));
  CHECK(in_container('2', "$DBLOCK reap\n").exit == exited(0));
  CHECK(run_true(database) == exited(75));
  const std::string owner = lines(first.out).at(0);
  CHECK(in_container('2', "$DBLOCK renew --key k --owner '" + owner + "'\n").exit == exited(0));
  CHECK(in_container('2', "$DBLOCK release --key k --owner '" + owner + "'\n").exit == exited(0));
  // And the host's own, by a container.
  take(database);
  CHECK(in_container('1', "$DBLOCK run --key k -- true\n").exit == exited(75));
}

TEST_CASE("a lease of a container's earlier boot is free, whatever the container's id", "[local]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  Database database;
  const TempDir directory;
  take(database, "k", {"--ttl", "30d"});
  make_of_another_boot(database, "k");
  // That boot began a year ago, and lasted for an hour.
  const long long ago = 365LL * 86'400 * 1'000'000;
  const long long wall = database.micros("k", "update_time") - ago;
  database.set_number("k", "boot_offset_us", wall - 3'600'000'000LL);
  database.set_number("k", "update_time", wall);
  database.set_number("k", "create_time", wall);
  database.set_number("k", "expire_time", wall + 30LL * 86'400 * 1'000'000);
  const auto finished = in_mount_namespace(with_own_boot_id(directory, '1') + "$DBLOCK run --key k -- true\n",
                                           {"DBLOCK_DB=" + database.url()});
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
}

TEST_CASE("a lease of this boot is not free for who asks from the same boot", "[local][safety]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  const Database database;
  const TempDir directory;
  const auto finished = in_mount_namespace(with_own_boot_id(directory, '1') +
                                               "$DBLOCK acquire --key k --ttl 60s >&2\n"
                                               "$DBLOCK run --key k -- true || echo refused $?\n",
                                           {"DBLOCK_DB=" + database.url()});
  INFO(finished.err);
  CHECK(finished.out == "refused 75\n");
}

}  // namespace
}  // namespace dblock::test
