// A MySQL replication group with one primary that is killed, frozen, or cut off while clients still reach it.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "cluster/runs.hpp"
#include "support/catch.hpp"
#include "support/group.hpp"
#include "support/live_run.hpp"
#include "support/overlap.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

const Words k_failover_lease{"--ttl", "30s", "--kill-grace", "1s"};
const std::vector<int> k_members{1, 2, 3};

struct Harm {
  std::string name;
  std::function<void(int node)> strike, mend;
};

std::vector<Harm> harms(Group& group) {
  return {{"killed", [&](int node) { group.kill(node); }, [&](int node) { group.start(node); }},
          {"frozen", [&](int node) { group.freeze(node); },
           [&](int node) { group.thaw(node), group.await_rejoined(node); }},
          {"cut off", [&](int node) { group.isolate(node); },
           [&](int node) { group.heal(node), group.await_rejoined(node); }}};
}

TEST_CASE("a run and its waiter outlive the primary of their replication group, killed, frozen or cut off",
          "[group_failover]") {
  DBLOCK_NEEDS(why_no_group());
  Group& group = shared_group(Group::Mode::single_primary);
  const ClusterDatabase database(group, group.await_primary());
  const std::string row = " FROM " + database.rows.name() + ".dblock_lock WHERE lock_key='k'";
  long long newest = 0;
  for (const auto& harm : harms(group)) {
    CAPTURE(harm.name);
    const int old = group.await_primary();
    LiveRun holder(database.url(k_members), k_failover_lease);
    Process waiter(database.at(
        k_members, run_words("k", {"-v", "--wait", "180s", "--ttl", "30s"}, sh("echo $DBLOCK_TOKEN"))));
    REQUIRE(soon_says(waiter, "waiting"));
    harm.strike(old);
    auto there = group.sql(group.await_primary(old));
    const std::string expires = there.value("SELECT expire_time" + row);
    CHECK(wait_until([&] { return there.value("SELECT expire_time" + row) > expires; }, 60s));
    CHECK(database.tries(k_members) == once(75));
    const long long token = there.number("SELECT token" + row);
    CHECK(token > newest);
    INFO(holder.err());
    CHECK(holder.end(5, 60s) == exited(5));
    CHECK(waiter.wait(60s) == exited(0));
    newest = std::stoll("0" + waiter.out());
    CHECK(newest > token);
    harm.mend(old);
  }
}

// What a script, a run or an application asks of one node.
class Askers {
 public:
  explicit Askers(ClusterDatabase& database)
      : database_(database), account_(database.rows.application_account()) {
    const auto taken = database.ask(k_members, {"acquire", "--key", "kept", "--ttl", "1h"});
    INFO(taken.err);
    REQUIRE(taken.exit == exited(0));
    owner_ = lines(taken.out).at(0);
    row_ = database.rows.row("kept");
  }
  // `reasons`: one of them is given. A node without a majority may leave the group, and be read-only then.
  void check_refused(int node, const Words& reasons) const {
    const auto gives_one = [&](const std::string& text) {
      return std::ranges::any_of(reasons, [&](const auto& reason) { return says(text, reason); });
    };
    const TempDir directory;
    const Words job{"touch", directory.file("ran")};
    std::vector<Words> all{{"renew", "--key", "kept", "--owner", owner_, "--ttl", "2h"},
                           {"release", "--key", "kept", "--owner", owner_}};
    for (const Words& options : {Words{}, Words{"--shared"}, Words{"--slots", "2"}, Words{"--key", "other"},
                                 Words{"--line", "newest"}})
      all.push_back(run_words("new", options, job));
    for (const auto& words : all) {
      CAPTURE(words);
      const auto refused = database_.ask({node}, words);
      INFO(refused.err);
      CHECK(refused.exit == exited(69));
      CHECK(gives_one(refused.err));
    }
    CHECK(read_file(directory.file("ran")).empty());
    Connection application(database_.cluster.address(node), account_, database_.rows.name());
    application.open_if_new();
    for (const std::string& call : std::vector<std::string>{
             "acquire('new','x',10000,NULL,NULL,NULL)", "renew('kept','" + owner_ + "',NULL)",
             "release('kept','" + owner_ + "')", "assert_held('kept',1)"})
      CHECK_THROWS_WITH(application.sql_in_session("CALL dblock_" + call),
                        Catch::Predicate<std::string>(gives_one, "gives one of the reasons"));
  }
  void check_nothing_changed() const {
    CHECK(database_.rows.row("kept") == row_);
    CHECK_FALSE(database_.rows.has_row("new"));
    CHECK_FALSE(database_.rows.has_row("other"));
  }

 private:
  ClusterDatabase& database_;
  std::string account_, owner_, row_;
};

TEST_CASE("a primary that is cut off from its replication group, or has left it, grants and renews nothing",
          "[group_failover]") {
  DBLOCK_NEEDS(why_no_group());
  Group& group = shared_group(Group::Mode::single_primary);
  const int old = group.await_primary();
  ClusterDatabase database(group, old);
  const Askers askers(database);
  const TempDir directory;
  const std::string log = directory.file("log");
  Process captive(database.at({old}, run_words("k", k_failover_lease, interval_job(log, 600000))));
  REQUIRE(wait_until([&] { return !read_intervals(log).empty(); }));
  group.isolate(old);
  group.await_cut_off(old);
  auto left = group.sql(old);
  askers.check_refused(old, {"is not an ONLINE member", "read_only is set", "read-only"});
  auto there = group.sql(group.await_primary(old));
  const std::string column = " FROM " + database.rows.name() + ".dblock_lock WHERE lock_key='k'";
  const std::string expires = there.value("SELECT expire_time" + column);
  Process successor(database.at(k_members, run_words("k", {"--wait", "120s"}, interval_job(log, 10))));
  CHECK(captive.wait(60s) == exited(76));
  CHECK(successor.wait(60s) == exited(0));
  CHECK(there.value("SELECT last_acquired_at>='" + expires + "'" + column) == "1");
  CHECK(exclusion_violation_despite_kills(read_intervals(log)) == "");

  group.await_left(old);
  REQUIRE(wait_until([&] { return left.value("SELECT @@global.super_read_only") == "1"; }));
  CHECK(database.ask({old}, run_words("new", {}, {"true"})).exit == exited(69));
  left.sql("SET GLOBAL super_read_only=OFF");
  left.sql("SET GLOBAL read_only=OFF");
  askers.check_refused(old, {"not an ONLINE member"});
  // At this consistency of the server a session without one of its own is refused, or waits.
  left.sql("SET GLOBAL group_replication_consistency='BEFORE'");
  CHECK(database.ask({old}, {"inspect"}).exit == exited(0));
  const auto doctored = database.ask(k_members, {"doctor"});
  CHECK(doctored.exit == exited(78));
  CHECK(says(doctored.out, "takes writes"));
  CHECK(says(database.ask({old}, {"doctor"}).out, "bad   replication-group"));
  left.sql("SET GLOBAL group_replication_consistency=DEFAULT");
  group.heal(old);
  group.await_rejoined(old);
  askers.check_nothing_changed();
}

TEST_CASE("a run loses its lease in time, or goes on elsewhere, when its cut off primary ends itself",
          "[group_failover]") {
  DBLOCK_NEEDS(why_no_group());
  Group& group = shared_group(Group::Mode::single_primary);
  const int old = group.await_primary();
  const std::vector<int> old_first{old, old % 3 + 1, (old + 1) % 3 + 1};
  const ClusterDatabase database(group, old);
  const TempDir directory;
  const std::string log = directory.file("log");
  const Words short_lease{"--ttl", "15s", "--kill-grace", "500ms", "--margin", "500ms"};
  LiveRun holder(database.url(old_first), k_failover_lease, patient_job, "kept");
  Process captive(database.at({old}, run_words("k", short_lease, interval_job(log, 600000))));
  REQUIRE(wait_until([&] { return !read_intervals(log).empty(); }));
  Process waiter(database.at(old_first, run_words("k", {"-v", "--wait", "180s"}, interval_job(log, 10))));
  REQUIRE(soon_says(waiter, "waiting"));
  const std::string row = " FROM " + database.rows.name() + ".dblock_lock WHERE lock_key=";
  auto here = group.sql(old);
  here.sql("SET GLOBAL group_replication_exit_state_action='ABORT_SERVER'");
  group.isolate(old);
  const std::string expires = here.value("SELECT expire_time" + row + "'k'");
  auto there = group.sql(group.await_primary(old));
  group.heal(old);  // while it is cut off it takes half a minute to end
  group.await_ended(old);

  const auto refused = database.ask({old}, run_words("new", {}, {"touch", directory.file("never")}));
  INFO(refused.err);
  CHECK(refused.exit == exited(69));
  CHECK_FALSE(std::filesystem::exists(directory.file("never")));
  const std::string kept = "SELECT expire_time" + row + "'kept'";
  const std::string kept_until = there.value(kept);
  CHECK(wait_until([&] { return there.value(kept) > kept_until; }, 60s));
  CHECK(database.ask(old_first, run_words("kept", {}, {"true"})).exit == exited(75));
  CHECK(captive.wait(60s) == exited(76));
  CHECK(waiter.wait(60s) == exited(0));
  CHECK(there.value("SELECT last_acquired_at>='" + expires + "'" + row + "'k'") == "1");
  CHECK(exclusion_violation_despite_kills(read_intervals(log)) == "");
  INFO(holder.err());
  CHECK(holder.end(5, 60s) == exited(5));
  group.start(old);
}

// The others have its transaction, it never gets their answers, and so it gives up as if it had been undone.
TEST_CASE("what a member gave up to commit when it left its group is looked for at another member",
          "[group_partition]") {
  DBLOCK_NEEDS(why_no_group());
  Group& group = shared_group(Group::Mode::multi_primary);
  const ClusterDatabase database(group);
  REQUIRE(database.tries({3}) == once(0));
  // Of two runs in the run of "n" the first gives back its hold, and must not do so twice.
  const auto two_nested = [](const TempDir& its) {
    const std::string nested = dblock_binary() + " run -k n --ttl 1h --heartbeat 20m -- sh -c '";
    return sh(nested + await_in_shell(its.file("first")) + "' & " + nested + until_told(its) + "'; wait");
  };
  LiveRun outer(database.url({3, 1, 2}), {"--ttl", "1h", "--heartbeat", "20m"}, two_nested, "n");
  REQUIRE(wait_until([&] { return database.rows.column("n", "lock_count") == "3"; }));
  const std::string limit = "SET GLOBAL group_replication_unreachable_majority_timeout=";
  group.sql(3).sql(limit + "1");  // before dblock gives the member up
  // The statements have begun, and do not end before the network breaks.
  auto blocker = group.sql(3);
  blocker.sql("START TRANSACTION");
  blocker.sql_in_session("SELECT * FROM " + database.rows.name() + ".dblock_lock FOR UPDATE");
  write_file(outer.file("first"), "");
  Process taken(database.at({3, 1, 2}, {"acquire", "--key", "k", "--ttl", "1h"}));
  auto watcher = group.sql(3);
  REQUIRE(wait_until([&] {
    return watcher.number(
               "SELECT COUNT(DISTINCT requesting_engine_transaction_id) "
               "FROM performance_schema.data_lock_waits") == 2;
  }));
  group.deafen(3);
  blocker.sql_in_session("ROLLBACK");
  group.await_left(3);
  const Exit exit = taken.wait(60s);
  INFO(taken.err());
  CHECK(database.rows.has_holder("k"));
  CHECK(exit == exited(0));
  CHECK(wait_until([&] { return says(outer.err(), "could not be confirmed"); }));
  CHECK(database.rows.column("n", "lock_count") == "2");
  INFO(outer.err());
  CHECK(outer.end() == exited(0));
  CHECK_FALSE(database.rows.has_holder("n"));
  group.heal(3);
  group.await_rejoined(3);
  group.sql(3).sql(limit + "0");
}

// A run on member 3 with another in it, which gives back its hold while that member has not applied another
// member's transaction that came first.
class LostCertification {
 public:
  LostCertification(Group& group, const ClusterDatabase& database) : group_(group), database_(database) {
    elsewhere_.sql("CREATE TABLE " + dam_ + " (n INT PRIMARY KEY)");
    group.catch_up(database.rows.name());
  }

  // False: it took so long that dblock may take its member for one that has left and joined again meanwhile.
  bool check_given_back(const Words& keys) {
    const Words lease = with({"--ttl", "1h", "--heartbeat", "20m"}, keys);
    const auto nested = [&](const TempDir& directory) {
      return with({dblock_binary()}, run_words("k", lease, patient_job(directory)));
    };
    LiveRun outer(database_.url({3}), lease, nested);
    const auto before = conflicts();
    Connection holds_up = group_.sql(3), blocker = group_.sql(3);
    holds_up.sql("LOCK TABLES " + dam_ + " READ");
    blocker.sql("START TRANSACTION");
    blocker.sql_in_session("SELECT * FROM " + locks_ + " FOR UPDATE");
    elsewhere_.sql("START TRANSACTION");
    elsewhere_.sql_in_session("INSERT INTO " + dam_ + " VALUES (" + std::to_string(++changes_) + ")");
    elsewhere_.sql_in_session("UPDATE " + locks_ + " SET version=version+1");
    outer.tell();
    auto begun = std::chrono::steady_clock::now();
    REQUIRE(wait_until([&] {
      const auto now = std::chrono::steady_clock::now();
      if (watcher_.number("SELECT COUNT(*) FROM performance_schema.data_lock_waits") > 0) return true;
      begun = now;
      return false;
    }));
    elsewhere_.sql_in_session("COMMIT");
    blocker.sql_in_session("ROLLBACK");
    REQUIRE(wait_until([&] { return conflicts() > before; }));
    holds_up.sql_in_session("UNLOCK TABLES");
    if (std::chrono::steady_clock::now() - begun > 1s) return false;
    const Exit exit = outer.wait();
    INFO(outer.err());
    CHECK(exit == exited(0));
    CHECK_FALSE(database_.rows.has_holder("k"));
    return true;
  }

 private:
  long long conflicts() {
    return watcher_.number(
        "SELECT count_conflicts_detected FROM performance_schema.replication_group_member_stats "
        "WHERE member_id=@@server_uuid");
  }

  Group& group_;
  const ClusterDatabase& database_;
  const std::string dam_ = database_.rows.name() + ".dam", locks_ = database_.rows.name() + ".dblock_lock";
  Connection watcher_ = group_.sql(3), elsewhere_ = group_.sql(1);
  int changes_ = 0;
};

TEST_CASE("a nested run's hold whose release loses a certification is given back all the same",
          "[group_partition]") {
  DBLOCK_NEEDS(why_no_group());
  Group& group = shared_group(Group::Mode::multi_primary);
  for (const Words& further : {Words{}, Words{"-k", "l"}}) {
    CAPTURE(further);
    const auto check = [&] {
      const ClusterDatabase database(group);
      return LostCertification(group, database).check_given_back(further);
    };
    CHECK(wait_until(check, 60s));
  }
}

}  // namespace
}  // namespace dblock::test
