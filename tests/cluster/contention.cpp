// Runs and applications on all three nodes of a Galera cluster that want the same locks: a node's row locks
// and named locks are its own, and what is left to exclude is certification. The line is a table, which all
// nodes have.
#include <atomic>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "cluster/runs.hpp"
#include "support/application.hpp"
#include "support/catch.hpp"
#include "support/group.hpp"
#include "support/live_run.hpp"
#include "support/overlap.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const Words k_patient{"--wait", "60s", "--ttl", "10s"};

TEST_CASE("waiting runs on three nodes never overlap and their tokens rise", "[contention]") {
  DBLOCK_NEEDS(why_no_cluster());
  const ClusterDatabase database(shared_cluster());
  const TempDir directory;
  const std::string log = directory.file("log");
  std::vector<Process> runs;
  for (int i = 0; i < 30; ++i)
    runs.emplace_back(database.at({1 + i % 3}, run_words("k", k_patient, interval_job(log, 20))));
  check_all_succeed(runs, 60s);
  const auto intervals = read_intervals(log);
  CHECK(intervals.size() == runs.size());
  CHECK(exclusion_violation(intervals) == "");
}

TEST_CASE("of runs that do not wait each is granted or told who holds the lock", "[contention]") {
  DBLOCK_NEEDS(why_no_cluster());
  const ClusterDatabase database(shared_cluster());
  const TempDir directory;
  const std::string log = directory.file("log");
  std::map<int, int> ends;
  for (int round = 0; round < 12; ++round) {
    std::vector<Process> runs;
    for (int i = 0; i < 9; ++i)
      runs.emplace_back(database.at({1 + i % 3}, run_words("k", {}, interval_job(log, 1))));
    for (auto& run : runs) {
      const Exit exit = run.wait();
      INFO(run.err());
      CHECK((exit == exited(0) || exit == exited(75)));
      ++ends[exit.number];
    }
  }
  CHECK(ends[0] >= 12);
  CHECK(ends[75] > 0);
  CHECK(exclusion_violation(read_intervals(log)) == "");
}

// Until all nodes know that an account may call the procedures.
void await_rights(ClusterDatabase& database, const std::string& account) {
  const std::string rights = "SELECT COUNT(*) FROM mysql.procs_priv WHERE User='" + account + "'";
  for (int node = 1; node <= Cluster::k_size; ++node) {
    auto there = database.cluster.sql(node);
    REQUIRE(wait_until([&] { return there.number(rights) == 4; }));
  }
}

// Applications that take a lock a few times each, on a thread each, and note their holds as interval_job()
// does.
class RacingApplications {
 public:
  RacingApplications(ClusterDatabase& database, std::string log)
      : log_(std::move(log)), database_(database), account_(database.rows.application_account()) {
    await_rights(database, account_);
  }

  void start(int node, int turns) {
    const std::string url = database_.cluster.address(node).tcp_url(database_.rows.name(), account_);
    threads_.emplace_back([this, url, turns] {
      Application application(url);
      for (int i = 0; i < turns; ++i) note_failure(take_turn(application));
    });
  }
  // Returns at the end of all of them: what went wrong, and how many turns they had.
  [[nodiscard]] std::string await() {
    threads_.clear();
    return failures_;
  }
  [[nodiscard]] int turns() const { return turns_; }

 private:
  std::string take_turn(Application& application) {
    const std::string owner = new_owner_id("racer");
    const auto taken = acquire_by_polling(application, "k", owner, {10s, 1s}, 60s);
    if (taken.outcome != "granted") return "acquire: " + taken.outcome;
    const int turn = ++turns_;
    note("begin", taken.token, turn);
    pause_for(10ms);
    if (boot_nanos() >= taken.deadline()) return "held up for longer than the TTL";
    note("end", taken.token, turn);
    bool unknown = false;
    const auto released = until_settled(
        [&] {
          auto answer = application.release("k", owner);
          unknown = unknown || answer.outcome == "unknown";
          return answer;
        },
        patience());
    return released.outcome == "released" || unknown ? "" : "release: " + released.outcome;
  }
  // As a process of its own, whose number no process of the test has.
  void note(const char* what, long long token, int turn) {
    const std::lock_guard lock(mutex_);
    std::ofstream(log_, std::ios::app) << std::string(what) + " " + std::to_string(boot_nanos()) + " " +
                                              std::to_string(token) + " " +
                                              std::to_string(100'000'000 + turn) + "\n";
  }
  void note_failure(const std::string& failure) {
    const std::lock_guard lock(mutex_);
    if (!failure.empty()) failures_ += failure + "; ";
  }

  std::string log_;
  ClusterDatabase& database_;
  std::string account_, failures_;
  std::mutex mutex_;
  std::atomic<int> turns_ = 0;
  std::vector<std::jthread> threads_;
};

// A node that has much to apply answers meanwhile, and does not know yet of what came after that.
TEST_CASE("an application renews and releases through a node that lags behind the grant", "[contention]") {
  DBLOCK_NEEDS(why_no_cluster());
  ClusterDatabase database(shared_cluster());
  const std::string account = database.rows.application_account();
  await_rights(database, account);
  const auto application_at = [&](int node) {
    Application one(database.cluster.address(node).tcp_url(database.rows.name(), account));
    REQUIRE(one.ask("DO 0").kind == SqlReply::Kind::rows);  // connected
    return one;
  };
  Application ahead = application_at(2), behind = application_at(1);
  auto busy = database.cluster.sql(2), lagging = database.cluster.sql(1);
  busy.sql("USE " + database.rows.name());  // a sequence's table needs one
  const std::string bulk = database.rows.name() + ".bulk";
  busy.sql("CREATE TABLE " + bulk + " (n INT AUTO_INCREMENT PRIMARY KEY, pad VARCHAR(200))");
  const auto lag = [&] { busy.sql("INSERT INTO bulk (pad) SELECT REPEAT('x',200) FROM seq_1_to_300000"); };
  const auto rows_behind = [&] { return lagging.number("SELECT COUNT(*) FROM " + bulk); };
  REQUIRE(wait_until([&] {
    return lagging.number("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA='" +
                          database.rows.name() + "' AND TABLE_NAME='bulk'") == 1;
  }));
  const LockTerms terms{600s, 0s};
  const std::string owner = new_owner_id("app");
  // Calls at the node that lags until it has answered before it had caught up.
  const auto call_behind = [&](const std::string& call, int tries) {
    const std::string key = call + std::to_string(tries);
    const auto before = rows_behind();
    lag();
    REQUIRE(until_settled([&] { return ahead.acquire(key, owner, terms); }, patience()).outcome == "granted");
    const bool is_behind = rows_behind() == before;
    const auto answer = until_settled(
        [&] {
          if (call == "renew") return behind.renew(key, owner);
          return call == "release" ? behind.release(key, owner) : behind.acquire(key, owner, terms);
        },
        patience());
    CHECK(answer.outcome == (call == "renew" ? "renewed" : call == "release" ? "released" : "granted"));
    REQUIRE(wait_until([&] { return rows_behind() > before; }));
    return is_behind;
  };
  for (const std::string call : {"renew", "release", "acquire"}) {
    CAPTURE(call);
    bool was_behind = false;
    for (int tries = 0; tries < 5 && !was_behind; ++tries) was_behind = call_behind(call, tries);
    CHECK(was_behind);
  }
  // A transaction waits at its beginning, if its session asks for that.
  std::string asserted;
  auto granted = ahead.acquire("first", owner, terms);
  bool was_behind = false;
  for (int tries = 0; tries < 5 && !was_behind; ++tries) {
    asserted = "asserted" + std::to_string(tries);
    const auto before = rows_behind();
    lag();
    granted = until_settled([&] { return ahead.acquire(asserted, owner, terms); }, patience());
    was_behind = rows_behind() == before;
  }
  CHECK(was_behind);
  for (const auto& statement :
       {std::string("SET SESSION wsrep_sync_wait=1"), std::string("START TRANSACTION"),
        "CALL dblock_assert_held('" + asserted + "'," + std::to_string(granted.token) + ")"}) {
    const auto reply = behind.ask(statement);
    CAPTURE(statement, reply.error);
    CHECK(reply.kind == SqlReply::Kind::rows);
  }
}

void check_applications_and_runs(Nodes& nodes) {
  ClusterDatabase database(nodes);
  const TempDir directory;
  const std::string log = directory.file("log");
  RacingApplications applications(database, log);
  for (int i = 0; i < 9; ++i) applications.start(1 + i % 3, 3);
  std::vector<Process> runs;
  for (int i = 0; i < 12; ++i)
    runs.emplace_back(database.at({1 + i % 3}, run_words("k", k_patient, interval_job(log, 20))));
  check_all_succeed(runs, 60s);
  CHECK(applications.await() == "");
  CHECK(applications.turns() == 9 * 3);
  const auto intervals = read_intervals(log);
  CHECK(intervals.size() == runs.size() + 9 * 3);
  CHECK(exclusion_violation(intervals) == "");
}

TEST_CASE("applications and runs on three nodes never overlap and their tokens rise", "[contention]") {
  DBLOCK_NEEDS(why_no_cluster());
  check_applications_and_runs(shared_cluster());
}

// Holds a file lock as long as it lives, and notes it when it cannot have it at once.
std::string witness(const TempDir& directory, const std::string& kind, const std::string& file) {
  return "set -- $DBLOCK_TOKEN; echo $1 >>" + directory.file("tokens") + "; flock -n " + kind + " " +
         directory.file(file) + " sleep 0.03 || echo $DBLOCK_KEY $DBLOCK_SLOT >>" +
         directory.file("violation");
}

void check_all_modes(Nodes& nodes) {
  const ClusterDatabase database(nodes);
  const TempDir directory;
  const auto words = [&](int kind) {
    switch (kind) {
      case 0:
        return run_words("slots", with(k_patient, {"--slots", "2"}),
                         sh(witness(directory, "-x", "slot$DBLOCK_SLOT")));
      case 1:
        return run_words("rw", with(k_patient, {"--shared"}), sh(witness(directory, "-s", "rw")));
      case 2:
        return run_words("rw", k_patient, sh(witness(directory, "-x", "rw")));
      default:
        return run_words("rw", with(k_patient, {"--key", "other"}), sh(witness(directory, "-x", "rw")));
    }
  };
  std::vector<Process> runs;
  for (int i = 0; i < 36; ++i) runs.emplace_back(database.at({1 + i % 3}, words(i / 3 % 4)));
  check_all_succeed(runs, 90s);
  CHECK(read_file(directory.file("violation")).empty());
  const auto tokens = lines(read_file(directory.file("tokens")));
  CHECK(tokens.size() == runs.size());
  // Microseconds since the epoch: those of another lock are hardly ever the same either.
  CHECK(std::set<std::string>(tokens.begin(), tokens.end()).size() == tokens.size());
}

TEST_CASE("readers, writers, slots and several keys exclude each other across nodes", "[contention]") {
  DBLOCK_NEEDS(why_no_cluster());
  check_all_modes(shared_cluster());
}

// Its applier stands still, while reading goes on: what the others have done since is not there yet.
void check_lagging_node(Nodes& nodes) {
  const ClusterDatabase database(nodes);
  auto lagging = nodes.sql(3);
  lagging.sql("LOCK TABLES " + database.rows.name() + ".dblock_lock READ");
  REQUIRE(database.ask({1}, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
  CHECK(lagging.sql("SELECT * FROM " + database.rows.name() + ".dblock_lock").empty());
  Process asked(database.at({3}, {"inspect", "--key", "k", "--exit-code"}));
  CHECK_FALSE(asked.try_wait(1s).has_value());
  lagging.sql("UNLOCK TABLES");
  CHECK(asked.wait() == exited(75));
}

TEST_CASE("a node that lags behind is not believed that a lock is free", "[contention]") {
  DBLOCK_NEEDS(why_no_cluster());
  check_lagging_node(shared_cluster());
}

void set_consistency(Group& group, const std::string& consistency) {
  for (int node = 1; node <= Nodes::k_size; ++node)
    group.sql(node).sql("SET GLOBAL group_replication_consistency='" + consistency + "'");
}

// Other cases run at the server's own consistency, which is BEFORE_ON_PRIMARY_FAILOVER on MySQL 9.
TEST_CASE("all modes exclude each other on all members of a replication group, at each consistency",
          "[group_partition]") {
  DBLOCK_NEEDS(why_no_group());
  Group& group = shared_group(Group::Mode::multi_primary);
  const std::string usual = group.sql(1).value("SELECT @@global.group_replication_consistency");
  set_consistency(group, "EVENTUAL");
  check_lagging_node(group);
  check_all_modes(group);
  if (full_run()) check_applications_and_runs(group);
  set_consistency(group, "BEFORE_AND_AFTER");
  check_applications_and_runs(group);
  if (full_run()) check_all_modes(group);
  set_consistency(group, usual);
}

TEST_CASE("a waiter on another node starts within moments of the release", "[contention]") {
  DBLOCK_NEEDS(why_no_cluster());
  const ClusterDatabase database(shared_cluster());
  LiveRun holder(database.url({1}));
  Process waiter(database.at({2}, run_words("k", {"-v", "--wait", "60s"}, sh("date +%s%N"))));
  REQUIRE(soon_says(waiter, "waiting"));
  pause_for(1s);  // long enough to be asking at the longest interval
  CHECK(holder.end() == exited(0));
  const long long released = realtime_micros();
  CHECK(waiter.wait() == exited(0));
  CHECK(std::stoll(waiter.out()) / 1000 - released < 2'000'000);  // asks five to ten times a second
}

// Waiters by way of all nodes, one after the other, in the line of a lock that is held.
class WaitersOnAllNodes {
 public:
  explicit WaitersOnAllNodes(const ClusterDatabase& database) : database_(database) {
    for (const int node : {2, 1, 3, 2}) add(node);
  }
  // `nodes`: where the line is looked at.
  void check_line(const std::vector<int>& nodes) {
    for (const int node : nodes) CHECK(waiters_shown(database_.url({node})) == pids_of(waiters_));
  }
  // Once the lock is free.
  void check_order() {
    check_all_succeed(waiters_, 60s);
    CHECK(read_file(directory_.file("ran")) == expected_);
  }

 private:
  // It asks `node` first.
  void add(int node) {
    const std::string name = std::to_string(waiters_.size()) + "-on-" + std::to_string(node);
    expected_ += name + "\n";
    waiters_.emplace_back(database_.at(
        {node, 1 + node % 3, 1 + (node + 1) % 3},
        run_words("k", {"--wait", "120s"}, sh("echo " + name + " >>" + directory_.file("ran")))));
    for (int other = 1; other <= Nodes::k_size; ++other) {
      auto session = database_.cluster.sql(other);
      const std::string count = "SELECT COUNT(*) FROM " + database_.rows.name() + ".dblock_waiter";
      REQUIRE(wait_until([&] { return session.number(count) == static_cast<long long>(waiters_.size()); }));
    }
  }

  const ClusterDatabase& database_;
  TempDir directory_;
  std::vector<Process> waiters_;
  std::string expected_;
};

const Words k_long_lease{"--ttl", "60s"};

void check_order_of_arrival(Nodes& nodes) {
  const ClusterDatabase database(nodes);
  LiveRun holder(database.url({1}), k_long_lease);
  WaitersOnAllNodes waiters(database);
  waiters.check_line({1, 2, 3});
  CHECK(holder.end() == exited(0));
  waiters.check_order();
}

TEST_CASE("waiters on three nodes run in the order of their arrival", "[contention]") {
  DBLOCK_NEEDS(why_no_cluster());
  check_order_of_arrival(shared_cluster());
}

TEST_CASE("waiters on three nodes of a replication group run in the order of their arrival", "[group]") {
  DBLOCK_NEEDS(why_no_group());
  Group group(Group::Mode::multi_primary);
  check_order_of_arrival(group);
}

TEST_CASE("waiters keep their order when the primary of their replication group is killed", "[group]") {
  DBLOCK_NEEDS(why_no_group());
  Group group(Group::Mode::single_primary);
  const int killed = group.await_primary();
  const ClusterDatabase database(group, killed);
  LiveRun holder(database.url({1, 2, 3}), k_long_lease);
  WaitersOnAllNodes waiters(database);
  group.kill(killed);
  waiters.check_line({group.await_primary(killed)});
  CHECK(holder.end() == exited(0));
  waiters.check_order();
}

}  // namespace
}  // namespace dblock::test
