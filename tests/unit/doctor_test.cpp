// doctor's judgements, on facts made up.
#include <algorithm>

#include "doctor/judgements.hpp"
#include "store/sql_grant.hpp"
#include "support/catch.hpp"

namespace dblock::doctor {
namespace {

using namespace std::chrono_literals;
using store::ClockReading;
using store::Names;
using store::parse_grant;
using store::ProcedureTried;
using store::Refusal;
using store::Reply;
using store::TlsMode;

// A server that nothing can be said against.
HostFacts sound() {
  HostFacts facts;
  facts.host = "db1";
  facts.tls = TlsMode::verify_full;
  facts.cipher = "TLS_AES_256_GCM_SHA384";
  facts.version = "10.11.19-MariaDB";
  facts.account = "jobs@%";
  facts.database = "locks";
  facts.schema_version = 4;
  facts.schema_serves = 4;
  facts.schema_needed = 4;
  facts.engines = {{"dblock_lock", "InnoDB"}, {"dblock_fence", "InnoDB"}};
  facts.key_type = "varbinary(255)";
  facts.variables = {{"read_only", "OFF"},       {"innodb_flush_log_at_trx_commit", "1"},
                     {"log_bin", "ON"},          {"sync_binlog", "1"},
                     {"binlog_format", "ROW"},   {"wait_timeout", "28800"},
                     {"max_connections", "100"}, {"max_statement_time", "0.000000"},
                     {"wsrep_on", "OFF"}};
  facts.status = {{"threads_connected", "80"}, {"wsrep_ready", "OFF"}};
  facts.grants = {"GRANT USAGE ON *.* TO `jobs`@`%` IDENTIFIED BY PASSWORD '*00'",
                  "GRANT SELECT, INSERT, UPDATE, DELETE ON `locks`.`dblock_lock` TO `jobs`@`%`"};
  facts.privileges = {{"SELECT on dblock_lock"}, {"UPDATE on dblock_lock"}};
  facts.procedures = {{"dblock_acquire", ProcedureTried::Answer::denied},
                      {"dblock_assert_held", ProcedureTried::Answer::callable}};
  facts.clock = ClockReading{2ms, 1ms};
  facts.named_lock = std::optional<std::string>("1");
  facts.replica_known = true;
  facts.identity = facts.identity_of_second = "db1:3306 (server_id 1)";
  return facts;
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Finding find(const std::vector<Finding>& findings, const std::string& check) {
  const auto it = std::ranges::find(findings, check, &Finding::check);
  INFO(check);
  REQUIRE(it != findings.end());
  return *it;
}

Finding judged(const HostFacts& facts, const std::string& check, unsigned min_replicas = 0) {
  return find(judge_hosts({facts}, min_replicas), check);
}

Level level_of(const HostFacts& facts, const std::string& check, unsigned min_replicas = 0) {
  return judged(facts, check, min_replicas).level;
}

Level level_with(const std::string& variable, const std::string& value, const std::string& check) {
  auto facts = sound();
  facts.variables[variable] = value;
  return level_of(facts, check);
}

}  // namespace

TEST_CASE("doctor: a sound server gets ok from every check, each once") {
  const auto findings = judge_hosts({sound()}, 0);
  std::vector<std::string> names;
  for (const auto& finding : findings) {
    INFO(finding.check << ": " << finding.found << ": " << finding.message);
    CHECK(finding.level == Level::ok);
    CHECK(finding.host.empty());
    CHECK(std::ranges::find(names, finding.check) == names.end());
    names.push_back(finding.check);
  }
  for (const char* check : {"connection",  "tls",           "certificate", "privileges",        "excess",
                            "schema",      "clock",         "read-only",   "replica",           "flush-log",
                            "binary-log",  "semi-sync",     "galera",      "replication-group", "timeouts",
                            "connections", "hourly-limits", "named-locks", "session",           "balancer"})
    CHECK(std::ranges::find(names, check) != names.end());
}

TEST_CASE("doctor: what a server does not know is no fault") {
  auto facts = sound();
  facts.variables.clear();
  facts.status.clear();
  facts.grants.clear();
  facts.replica_known = false;
  facts.identity.clear();
  for (const auto& finding : judge_hosts({facts}, 0)) {
    INFO(finding.check);
    CHECK(finding.level == Level::ok);
  }
}

TEST_CASE("procedures that are missing, old or broken are worth a warning, and those of others are not") {
  auto facts = sound();
  CHECK(judged(facts, "procedures").level == Level::ok);
  CHECK(says(judged(facts, "procedures").found, "dblock_assert_held"));
  CHECK(says(judged(facts, "procedures").message, "not for this account: dblock_acquire"));
  facts.procedures[1].outdated = true;
  CHECK(says(judged(facts, "procedures").found, "of an older version"));
  facts.procedures[0].answer = ProcedureTried::Answer::missing;
  CHECK(says(judged(facts, "procedures").found, "missing: dblock_acquire"));
  facts.procedures[1] = {"dblock_assert_held", ProcedureTried::Answer::broken, "no such definer"};
  CHECK(says(judged(facts, "procedures").found, "broken: dblock_assert_held"));
  CHECK(says(judged(facts, "procedures").message, "no such definer"));
  CHECK(judged(facts, "procedures").level == Level::warn);
  facts.procedures[0] = {"dblock_acquire", ProcedureTried::Answer::foreign};
  CHECK(judged(facts, "procedures").level == Level::bad);
  CHECK(says(judged(facts, "procedures").found, "not dblock's: dblock_acquire"));
  facts.procedures = {{"dblock_acquire", ProcedureTried::Answer::untried}};
  CHECK(judged(facts, "procedures").level == Level::ok);
}

TEST_CASE("doctor: of a host that cannot be reached there is that one line") {
  auto facts = sound();
  facts.failed = "cannot connect";
  const auto findings = judge_hosts({facts}, 0);
  REQUIRE(findings.size() == 1);
  CHECK(findings.front().check == "connection");
  CHECK(findings.front().level == Level::bad);
  CHECK(findings.front().message == "cannot connect");
}

TEST_CASE(
    "doctor: plain text and certificates that are not checked are warned of, on a socket they are fine") {
  auto facts = sound();
  facts.cipher.clear();
  facts.tls = TlsMode::prefer;
  CHECK(level_of(facts, "tls") == Level::warn);
  CHECK(level_of(facts, "certificate") == Level::warn);
  facts.over_socket = true;
  CHECK(level_of(facts, "tls") == Level::ok);
  CHECK(level_of(facts, "certificate") == Level::ok);
  for (const TlsMode mode : {TlsMode::require, TlsMode::verify_ca}) {
    auto encrypted = sound();
    encrypted.tls = mode;
    CHECK(level_of(encrypted, "tls") == Level::ok);
    CHECK(level_of(encrypted, "certificate") == Level::warn);
  }
}

TEST_CASE("doctor: a privilege that is missing is bad and named, one that cannot be tried is a warning") {
  auto facts = sound();
  facts.privileges.push_back({"DELETE on dblock_lock", Reply::denied});
  CHECK(level_of(facts, "privileges") == Level::bad);
  CHECK(judged(facts, "privileges").found == "missing: DELETE on dblock_lock");
  facts.privileges.back().reply = Reply::refused;
  CHECK(level_of(facts, "privileges") == Level::warn);
  facts.privileges.clear();
  CHECK(level_of(facts, "privileges") == Level::warn);
}

TEST_CASE("doctor: a history is looked at where one is kept, and is never bad") {
  auto facts = sound();
  facts.keeps_history = false;
  CHECK(judged(facts, "history").level == Level::ok);
  CHECK(judged(facts, "history").found == "not kept");
  facts.keeps_history = true;
  facts.history_privileges = {{"SELECT"}, {"INSERT"}, {"DELETE"}};
  CHECK(judged(facts, "history").level == Level::ok);
  CHECK(judged(facts, "history").found == "kept");
  facts.history_privileges[1].reply = Reply::denied;
  CHECK(judged(facts, "history").level == Level::warn);
  CHECK(judged(facts, "history").found == "missing: INSERT on dblock_history");
  facts.history_privileges[0].reply = Reply::no_table;
  CHECK(judged(facts, "history").level == Level::warn);
  CHECK(judged(facts, "history").found == "no table");
}

TEST_CASE("doctor: privileges beyond rows of tables are too many") {
  for (const char* grant :
       {"GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION", "GRANT FILE ON *.* TO `jobs`@`%`",
        "GRANT SELECT, INSERT ON *.* TO `jobs`@`%`", "GRANT CREATE USER ON *.* TO `jobs`@`%`",
        "GRANT SELECT, DROP ON `locks`.* TO `jobs`@`%`", "GRANT ALL PRIVILEGES ON `locks`.* TO `jobs`@`%`",
        "GRANT SELECT ON `locks`.* TO `jobs`@`%` WITH GRANT OPTION", "GRANT SUPER ON *.* TO `jobs`@`%`"}) {
    CAPTURE(grant);
    auto facts = sound();
    facts.grants.emplace_back(grant);
    CHECK(level_of(facts, "excess") == Level::warn);
  }
  for (const char* grant : {"GRANT SLAVE MONITOR, PROCESS ON *.* TO `jobs`@`%`", "GRANT `role` TO `jobs`@`%`",
                            "GRANT EXECUTE ON PROCEDURE `locks`.`dblock_assert_held` TO `jobs`@`%`",
                            "GRANT PROXY ON ''@'%' TO 'root'@'localhost' WITH GRANT OPTION"}) {
    CAPTURE(grant);
    auto facts = sound();
    facts.grants.emplace_back(grant);
    CHECK(level_of(facts, "excess") == Level::ok);
  }
}

TEST_CASE("doctor: an account that read_only does not stop is bad on a read-only server") {
  for (const char* privilege :
       {"SUPER", "READ_ONLY ADMIN", "READ ONLY ADMIN", "CONNECTION_ADMIN", "ALL PRIVILEGES"}) {
    CAPTURE(privilege);
    auto facts = sound();
    facts.grants.push_back("GRANT " + std::string(privilege) + " ON *.* TO `jobs`@`%`");
    CHECK(level_of(facts, "excess") == Level::warn);
    facts.variables["read_only"] = "ON";
    CHECK(level_of(facts, "excess") == Level::bad);
  }
}

TEST_CASE("doctor: tables that are missing, of another version or another make are bad") {
  auto facts = sound();
  facts.schema_version = std::unexpected(Refusal{Reply::no_table, "no such table (error 1146)"});
  CHECK(level_of(facts, "schema") == Level::bad);
  CHECK(judged(facts, "schema").message.find("dblock migrate") != std::string::npos);
  facts.schema_version = 3;
  CHECK(judged(facts, "schema").message.find("dblock migrate") != std::string::npos);
  facts.schema_version = 5;
  CHECK(level_of(facts, "schema") == Level::ok);
  facts.schema_serves = 5;
  CHECK(level_of(facts, "schema") == Level::bad);
  CHECK(judged(facts, "schema").message.find("upgrade") != std::string::npos);
  facts = sound();
  facts.engines["dblock_fence"] = "MyISAM";
  CHECK(level_of(facts, "schema") == Level::bad);
  facts = sound();
  facts.key_type = "varchar(255)";
  CHECK(level_of(facts, "schema") == Level::bad);
}

TEST_CASE("doctor: clocks are compared beyond what the round trip blurs") {
  const auto level = [](Micros ahead, Micros blur) {
    auto facts = sound();
    facts.clock = ClockReading{ahead, blur};
    return level_of(facts, "clock");
  };
  CHECK(level(900ms, 0ms) == Level::ok);
  CHECK(level(-900ms, 0ms) == Level::ok);
  CHECK(level(1100ms, 0ms) == Level::warn);
  CHECK(level(1100ms, 200ms) == Level::ok);
  CHECK(level(-2900ms, 0ms) == Level::warn);
  CHECK(level(3100ms, 0ms) == Level::bad);
  CHECK(level(-1h, 0ms) == Level::bad);
}

TEST_CASE("doctor: a server that takes no writes is bad alone") {
  CHECK(level_with("read_only", "ON", "read-only") == Level::bad);
  CHECK(level_with("read_only", "1", "read-only") == Level::bad);
  CHECK(level_with("read_only", "NO_LOCK_NO_ADMIN", "read-only") == Level::bad);
  CHECK(level_with("super_read_only", "ON", "read-only") == Level::bad);
}

TEST_CASE("doctor: a replica that lags or has stopped is warned of") {
  auto facts = sound();
  facts.replica = Names{{"seconds_behind_source", "0"}};
  CHECK(level_of(facts, "replica") == Level::ok);
  facts.replica = Names{{"seconds_behind_source", "40"}};
  CHECK(level_of(facts, "replica") == Level::warn);
  facts.replica = Names{{"seconds_behind_source", ""}};
  CHECK(level_of(facts, "replica") == Level::warn);
}

TEST_CASE("doctor: what a crash forgets is warned of") {
  CHECK(level_with("innodb_flush_log_at_trx_commit", "2", "flush-log") == Level::warn);
  CHECK(level_with("innodb_flush_log_at_trx_commit", "0", "flush-log") == Level::warn);
  CHECK(level_with("sync_binlog", "0", "binary-log") == Level::warn);
  auto facts = sound();
  facts.variables["sync_binlog"] = "0";
  facts.variables["log_bin"] = "OFF";
  CHECK(level_of(facts, "binary-log") == Level::ok);
}

namespace {

HostFacts semi_synchronous(const std::string& role) {
  auto facts = sound();
  facts.variables["rpl_semi_sync_" + role + "_enabled"] = "ON";
  facts.variables["rpl_semi_sync_" + role + "_wait_point"] = "AFTER_SYNC";
  facts.variables["rpl_semi_sync_" + role + "_timeout"] = "3600000";
  facts.status["rpl_semi_sync_" + role + "_status"] = "ON";
  facts.status["rpl_semi_sync_" + role + "_clients"] = "2";
  return facts;
}

}  // namespace

TEST_CASE("doctor: semi-synchronous replication, by the names of both servers") {
  for (const std::string role : {"master", "source"}) {
    CAPTURE(role);
    const std::string prefix = "rpl_semi_sync_" + role;
    const HostFacts good = semi_synchronous(role);
    CHECK(level_of(good, "semi-sync") == Level::ok);
    CHECK(level_of(good, "semi-sync", 2) == Level::ok);
    CHECK(level_of(good, "semi-sync", 3) == Level::bad);
    auto facts = good;
    facts.variables[prefix + "_wait_point"] = "AFTER_COMMIT";
    CHECK(level_of(facts, "semi-sync") == Level::warn);
    facts = good;
    facts.variables[prefix + "_timeout"] = "10000";
    CHECK(level_of(facts, "semi-sync") == Level::warn);
    facts = good;
    facts.variables[prefix + (role == "master" ? "_wait_no_slave" : "_wait_no_replica")] = "OFF";
    CHECK(level_of(facts, "semi-sync") == Level::warn);
    facts = good;
    facts.status[prefix + "_status"] = "OFF";
    CHECK(level_of(facts, "semi-sync") == Level::warn);
    CHECK(level_of(facts, "semi-sync", 1) == Level::bad);
  }
  CHECK(level_of(sound(), "semi-sync") == Level::ok);
  CHECK(level_of(sound(), "semi-sync", 1) == Level::bad);
}

TEST_CASE("doctor: an acknowledged lease is received by a replica, which is not to say applied there") {
  for (const std::string role : {"master", "source"}) {
    CAPTURE(role);
    HostFacts facts = semi_synchronous(role);
    CHECK(judged(facts, "semi-sync").message.find("received by a replica") != std::string::npos);
    // A replica with the primary's settings waits for an acknowledgement of its own before it applies
    // anything, as far as the account may see that it is one.
    facts.status["rpl_semi_sync_" + role + "_clients"] = "0";
    HostFacts follower = facts;
    follower.replica = Names{{"seconds_behind_source", "0"}};
    CHECK(judged(follower, "semi-sync").message.find("applies none") != std::string::npos);
    CHECK(level_of(follower, "semi-sync") == Level::bad);
    follower = facts;
    follower.variables["read_only"] = "ON";
    follower.replica_known = false;
    CHECK(level_of(follower, "semi-sync") == Level::bad);
    follower.status["rpl_semi_sync_" + role + "_clients"] = "1";  // of a chain
    CHECK(level_of(follower, "semi-sync") == Level::ok);
  }
}

namespace {

HostFacts node(const std::string& cluster) {
  auto facts = sound();
  facts.variables["wsrep_on"] = "ON";
  facts.status = {{"wsrep_ready", "ON"},
                  {"wsrep_cluster_status", "Primary"},
                  {"wsrep_local_state_comment", "Synced"},
                  {"wsrep_cluster_size", "3"},
                  {"wsrep_cluster_state_uuid", cluster}};
  return facts;
}

}  // namespace

TEST_CASE("doctor: a Galera node outside the majority is bad, a busy or lonely one a warning") {
  CHECK(level_of(node("c"), "galera") == Level::ok);
  const auto level = [](const std::string& name, const std::string& value) {
    auto facts = node("c");
    facts.status[name] = value;
    return level_of(facts, "galera");
  };
  CHECK(level("wsrep_cluster_status", "non-Primary") == Level::bad);
  CHECK(level("wsrep_ready", "OFF") == Level::bad);
  CHECK(level("wsrep_local_state_comment", "Donor/Desynced") == Level::warn);
  CHECK(level("wsrep_cluster_size", "2") == Level::warn);
}

TEST_CASE("doctor: a server that has left its replication group is bad") {
  auto facts = sound();
  facts.variables["group_replication_group_name"] = "g";
  CHECK(level_of(facts, "replication-group") == Level::warn);  // it does not tell
  facts.group_member = false;
  CHECK(level_of(facts, "replication-group") == Level::bad);
  // Another host that takes writes is no excuse; and the one that has left is none of the writers.
  auto member = sound();
  member.group_member = true;
  CHECK(find(judge_hosts({facts, member}, 0), "replication-group").level == Level::bad);
  CHECK(find(judge_hosts({facts, member}, 0), "writers").found == member.host);
  CHECK(find(judge_hosts({facts, facts}, 0), "writers").level == Level::bad);
  facts.variables["super_read_only"] = "ON";
  CHECK(level_of(facts, "replication-group") == Level::warn);  // it may be joining
  facts.group_members = {{"RECOVERING", true}};
  CHECK(level_of(facts, "replication-group") == Level::warn);
  for (const char* const state : {"ERROR", "OFFLINE", "ONLINE"}) {
    CAPTURE(state);
    facts.group_members = {{state, true}};
    CHECK(level_of(facts, "replication-group") == Level::bad);
  }
}

TEST_CASE("doctor: of a replication group the mode, the consistency and the members are told and judged") {
  auto facts = sound();
  facts.variables["group_replication_group_name"] = "g";
  facts.variables["group_replication_single_primary_mode"] = "ON";
  facts.variables["group_replication_consistency"] = "BEFORE_ON_PRIMARY_FAILOVER";
  facts.group_member = true;
  CHECK(judged(facts, "replication-group").found == "ONLINE, single-primary, BEFORE_ON_PRIMARY_FAILOVER");
  facts.group_members = {{"ONLINE", true}, {"ONLINE", false}, {"ONLINE", false}, {"UNREACHABLE", false}};
  CHECK(judged(facts, "replication-group").found ==
        "ONLINE, single-primary, BEFORE_ON_PRIMARY_FAILOVER, 3 ONLINE");
  const auto level = [&](const std::string& single_primary, const std::string& consistency) {
    facts.variables["group_replication_single_primary_mode"] = single_primary;
    facts.variables["group_replication_consistency"] = consistency;
    return level_of(facts, "replication-group");
  };
  for (const std::string consistency : {"BEFORE", "AFTER", "BEFORE_AND_AFTER"}) {
    CHECK(level("ON", consistency) == Level::ok);
    CHECK(level("OFF", consistency) == Level::ok);
  }
  CHECK(level("ON", "BEFORE_ON_PRIMARY_FAILOVER") == Level::ok);
  CHECK(level("OFF", "BEFORE_ON_PRIMARY_FAILOVER") == Level::warn);
  CHECK(level("ON", "EVENTUAL") == Level::warn);
  facts.group_members[1].state = "UNREACHABLE";
  CHECK(level("ON", "BEFORE") == Level::warn);
}

TEST_CASE("doctor: connections are judged by the smallest limit, and by each that is nearly used up") {
  auto facts = sound();
  CHECK(judged(facts, "connections").found == "80 of max_connections=100");
  CHECK(says(judged(facts, "connections").message, "at most 20 waiters sleep"));
  facts.variables["max_connections"] = "10000";
  CHECK(says(judged(facts, "connections").message, "at most 500 waiters sleep"));
  facts.variables["max_connections"] = "100";
  facts.variables["thread_pool_max_threads"] = "9";  // of a pool that is not in use
  CHECK(judged(facts, "connections").found == "80 of max_connections=100");
  facts.variables["thread_handling"] = "pool-of-threads";
  CHECK(judged(facts, "connections").found == "thread_pool_max_threads=9");
  CHECK(says(judged(facts, "connections").message, "at most 1 waiter sleeps"));
  facts.limits = {.sessions = 50, .sessions_used = 40};
  CHECK(judged(facts, "connections").level == Level::ok);
  facts.limits.sessions_used = 41;
  CHECK(judged(facts, "connections").level == Level::warn);
  CHECK(judged(facts, "connections").found == "41 of max_user_connections=50");
  CHECK(says(judged(facts, "connections").message, "raise max_user_connections"));
}

TEST_CASE("doctor: limits of an hour are held against the renewals of an hour") {
  auto facts = sound();
  CHECK(judged(facts, "hourly-limits").level == Level::ok);
  facts.limits.updates_per_hour = 479;
  CHECK(judged(facts, "hourly-limits").level == Level::warn);
  CHECK(judged(facts, "hourly-limits").found == "MAX_UPDATES_PER_HOUR=479");
  CHECK(says(judged(facts, "hourly-limits").message, "enough for 1 job at a time"));
  facts.limits = {.connections_per_hour = 5};
  CHECK(judged(facts, "hourly-limits").found == "MAX_CONNECTIONS_PER_HOUR=5");
  CHECK_FALSE(says(judged(facts, "hourly-limits").message, "renews"));
}

TEST_CASE("doctor: what gets in the way of waiting is warned of") {
  CHECK(level_with("max_statement_time", "30.000000", "timeouts") == Level::warn);
  CHECK(level_with("wait_timeout", "10", "timeouts") == Level::warn);
  CHECK(level_with("max_connections", "99", "connections") == Level::warn);
  auto facts = sound();
  facts.named_lock = std::unexpected(Refusal{Reply::refused, "not supported yet (error 1235)"});
  CHECK(level_of(facts, "named-locks") == Level::warn);
  CHECK(judged(facts, "named-locks").message.starts_with("not supported yet (error 1235): "));
  facts.named_lock = std::optional<std::string>();
  CHECK(level_of(facts, "named-locks") == Level::warn);
  facts = sound();
  facts.identity_of_second = "db2:3306 (server_id 2)";
  CHECK(level_of(facts, "balancer") == Level::warn);
}

namespace {

HostFacts second(const HostFacts& first) {
  auto facts = first;
  facts.host = "db2";
  facts.identity = facts.identity_of_second = "db2:3306 (server_id 2)";
  return facts;
}

Level level_of_pair(const HostFacts& one, const HostFacts& other, const std::string& check) {
  return find(judge_hosts({one, other}, 0), check).level;
}

}  // namespace

TEST_CASE("doctor: a spare host may be away or read-only while another takes writes") {
  auto away = second(sound());
  away.failed = "no route";
  auto replica = second(sound());
  replica.variables["read_only"] = "ON";
  CHECK(level_of_pair(away, sound(), "connection") == Level::warn);
  CHECK(level_of_pair(replica, sound(), "read-only") == Level::ok);
  CHECK(level_of_pair(sound(), replica, "writers") == Level::ok);
  CHECK(level_of_pair(away, replica, "connection") == Level::bad);
  CHECK(level_of_pair(replica, away, "read-only") == Level::bad);
  CHECK(level_of_pair(away, replica, "writers") == Level::bad);
  CHECK(find(judge_hosts({sound(), replica}, 0), "tls").host == "db1");
}

TEST_CASE("doctor: min-replicas is asked of the host that takes writes alone") {
  auto replica = second(sound());
  replica.variables["read_only"] = "ON";
  for (const auto& finding : judge_hosts({replica, semi_synchronous("master")}, 1)) {
    INFO(finding.check << " " << finding.host);
    CHECK(finding.level != Level::bad);
  }
}

TEST_CASE("doctor: two servers that take writes and are no cluster are bad") {
  CHECK(level_of_pair(sound(), second(sound()), "writers") == Level::bad);
  CHECK(level_of_pair(node("c"), second(node("c")), "writers") == Level::ok);
  CHECK(level_of_pair(node("c"), second(node("d")), "writers") == Level::bad);
  CHECK(level_of_pair(node("c"), second(sound()), "writers") == Level::bad);
  auto alias = sound();
  alias.host = "db1.example";
  CHECK(level_of_pair(sound(), alias, "writers") == Level::ok);
  auto grouped = sound();
  grouped.variables["group_replication_group_name"] = "g";
  CHECK(level_of_pair(grouped, second(grouped), "writers") == Level::ok);
}

TEST_CASE("doctor: asynchronous replication and clocks apart are told of several hosts") {
  auto replica = second(sound());
  replica.variables["read_only"] = "ON";
  CHECK(level_of_pair(sound(), replica, "failover") == Level::warn);
  CHECK(level_of_pair(semi_synchronous("master"), replica, "failover") == Level::ok);
  CHECK(level_of_pair(node("c"), second(node("c")), "failover") == Level::ok);
  CHECK(level_of_pair(sound(), replica, "clocks") == Level::ok);
  replica.clock = ClockReading{-1500ms, 1ms};
  CHECK(level_of_pair(sound(), replica, "clocks") == Level::warn);
  replica.clock = ClockReading{-4s, 1ms};
  CHECK(level_of_pair(sound(), replica, "clocks") == Level::bad);
}

TEST_CASE("doctor: GRANT statements are read whatever names they hold") {
  const auto grant =
      parse_grant("GRANT SELECT (a, b), UPDATE ON `a `` ON x`.`t.`  TO `u`@`%` WITH GRANT OPTION");
  REQUIRE(grant);
  CHECK(grant->privileges == std::vector<std::string>{"SELECT", "UPDATE", "GRANT OPTION"});
  CHECK(grant->database == "a ` ON x");
  CHECK(grant->object == "t.");
  CHECK(grant->scope() == "a ` ON x.t.");
  const auto routine = parse_grant("GRANT EXECUTE ON PROCEDURE `d`.`p` TO `u`@`%`");
  REQUIRE(routine);
  CHECK(routine->routine);
  CHECK(routine->object == "p");
  const auto global = parse_grant("GRANT USAGE ON *.* TO `WITH GRANT OPTION`@`%`");
  REQUIRE(global);
  CHECK(global->privileges == std::vector<std::string>{"USAGE"});
  CHECK(global->scope() == "*.*");
  CHECK_FALSE(parse_grant("GRANT `role` TO `u`@`%`"));
  CHECK_FALSE(parse_grant("GRANT PROXY ON ''@'%' TO 'root'@'localhost'"));
  CHECK_FALSE(parse_grant(""));
  CHECK_FALSE(parse_grant("GRANT SELECT ON `unclosed"));
}

TEST_CASE("doctor: grants reach beyond a database unless all of them are on it, or only look") {
  const auto beyond = [](const std::string& grant) {
    return store::reach_beyond({"GRANT USAGE ON *.* TO `u`@`%`", grant}, "my_locks");
  };
  for (const auto* const within :
       {"GRANT ALL PRIVILEGES ON `my_locks`.* TO `u`@`%`",
        "GRANT ALL PRIVILEGES ON `my\\_locks`.* TO `u`@`%`",
        "GRANT SELECT ON `my_locks`.`dblock_lock` TO `u`@`%`", "GRANT PROCESS ON *.* TO `u`@`%`",
        "GRANT EXECUTE ON PROCEDURE `my_locks`.`dblock_renew` TO `u`@`%`"})
    CHECK_FALSE(beyond(within));
  for (const auto* const wider :
       {"GRANT SELECT ON *.* TO `u`@`%`", "GRANT ALL PRIVILEGES ON `my%`.* TO `u`@`%`",
        "GRANT ALL PRIVILEGES ON `my\\_locks%`.* TO `u`@`%`", "GRANT INSERT ON `shop`.`orders` TO `u`@`%`",
        "GRANT `role` TO `u`@`%`", "GRANT SELECT ON `my\\_locks`.`dblock_lock` TO `u`@`%`"})
    CHECK(beyond(wider));
  CHECK(store::reach_beyond({}, "my_locks"));
}

TEST_CASE("doctor: an account is shown all procedures by a right on them all") {
  const auto shown = [](const std::string& grant) { return store::show_procedures({grant}, "locks"); };
  CHECK(shown("GRANT ALL PRIVILEGES ON *.* TO `u`@`%` WITH GRANT OPTION"));
  CHECK(shown("GRANT SELECT, CREATE ROUTINE ON `locks`.* TO `u`@`%`"));
  CHECK_FALSE(shown("GRANT EXECUTE ON PROCEDURE `locks`.`dblock_renew` TO `u`@`%`"));
  CHECK_FALSE(shown("GRANT ALL PRIVILEGES ON `shop`.* TO `u`@`%`"));
  CHECK_FALSE(shown("GRANT SELECT ON *.* TO `u`@`%`"));
  CHECK_FALSE(shown("GRANT `role` TO `u`@`%`"));
}

TEST_CASE("doctor: a view in the place of a table is bad, whatever version the tables tell") {
  auto facts = sound();
  facts.replaced = {"dblock_lock", "dblock_fence"};
  CHECK(judged(facts, "schema").level == Level::bad);
  CHECK(judged(facts, "schema").found == "not dblock's: dblock_lock, dblock_fence");
}

TEST_CASE("doctor: without a client library no server is judged") {
  const store::ServerFacts facts{fail(Errc::config, "cannot be loaded"), {}};
  const auto findings = judge_server(facts);
  REQUIRE(findings.size() == 1);
  CHECK(findings.front().check == "connection");
  CHECK(findings.front().level == Level::bad);
  CHECK(findings.front().message == "cannot be loaded");
  CHECK(find(judge_server({"3.3.8", {sound()}}), "client-library").found == "3.3.8");
}

namespace {

store::FileFacts sound_file() {
  store::FileFacts facts;
  facts.path = "/locks.db";
  facts.exists = true;
  facts.mode = 0100600;
  facts.contents = store::FileContents{3, 3, false, "wal", "ok"};
  facts.free_bytes = std::uint64_t{1} << 30U;
  facts.wall_clock = std::chrono::hours(24) * 365 * 56;
  return facts;
}

Level level_of_file(const store::FileFacts& facts, const std::string& check) {
  return find(judge_file(facts), check).level;
}

}  // namespace

TEST_CASE("doctor: a sound embedded store gets ok from every check, each once") {
  std::vector<std::string> names;
  for (const auto& finding : judge_file(sound_file())) {
    INFO(finding.check << ": " << finding.found << ": " << finding.message);
    CHECK(finding.level == Level::ok);
    names.push_back(finding.check);
  }
  CHECK(names == std::vector<std::string>{"store", "store-mode", "schema", "history", "journal", "integrity",
                                          "disk-space", "clock"});
  auto missing = sound_file();
  missing.exists = false;
  missing.contents.reset();
  CHECK(judge_file(missing).size() == 3);
  CHECK(find(judge_file(missing), "store").message == "not there yet; the first lock makes it");
}

TEST_CASE("doctor: an embedded store that is damaged, newer or in a bad place is bad") {
  auto facts = sound_file();
  facts.contents = store::FileContents{2, 3, {}, "delete", "row missing from index"};
  CHECK(find(judge_file(facts), "schema").message == "the next job brings it to version 3");
  CHECK(level_of_file(facts, "schema") == Level::ok);
  CHECK(level_of_file(facts, "journal") == Level::warn);
  CHECK(level_of_file(facts, "integrity") == Level::bad);
  facts.contents = store::FileContents{fail(Errc::schema, "newer"), 3, {}, "wal", "ok"};
  CHECK(level_of_file(facts, "schema") == Level::bad);
  facts.contents = fail(Errc::config, "not a database");
  CHECK(judge_file(facts)[2].message == "not a database");
  CHECK(judge_file(facts)[2].level == Level::bad);
  facts.path = fail(Errc::config, "on a network file system");
  CHECK(level_of_file(facts, "store") == Level::bad);
  CHECK(judge_file(facts).size() == 2);  // with the room on the disk
  facts.exists = false;
  CHECK(judge_file(facts).size() == 1);
}

TEST_CASE("doctor: a clock that cannot be right and a disk that cannot be looked at") {
  auto facts = sound_file();
  facts.wall_clock = Micros{0};
  CHECK(level_of_file(facts, "clock") == Level::warn);
  facts.boot_clock = fail(Errc::config, "no boot id");
  CHECK(level_of_file(facts, "clock") == Level::bad);
  facts.free_bytes = fail(Errc::internal, "no disk");
  CHECK(level_of_file(facts, "disk-space") == Level::warn);
}

TEST_CASE("doctor: the embedded store's mode and the room on its disk") {
  CHECK(judge_mode(0100600).level == Level::ok);
  CHECK(judge_mode(0100640).level == Level::warn);
  CHECK(judge_mode(0100602).level == Level::warn);
  CHECK(judge_space(std::uint64_t{1} << 30U).level == Level::ok);
  CHECK(judge_space(std::uint64_t{10} << 20U).level == Level::warn);
  CHECK(judge_space(4096).level == Level::bad);
}

TEST_CASE("each pause in effect is a warning that tells its locks, its end and its reason") {
  auto facts = sound();
  facts.pauses = {{{"etl-", true}, {}, "op@desk", "new \x1b disks", {}}, {{"k", false}, {}, "", "", {}}};
  const auto pause = find(judge_service(facts), "pause");
  CHECK(pause.level == Level::warn);
  CHECK(pause.found == "locks whose keys start with \"etl-\"");
  CHECK(says(pause.message, "paused until 1970-01-01T00:00:00Z by op@desk: new \\x1b disks"));
  const auto findings = judge_service(facts);
  CHECK(std::ranges::count(findings, "pause", &Finding::check) == 2);
}

}  // namespace dblock::doctor
