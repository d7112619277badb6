#include <algorithm>
#include <utility>

#include "doctor/judgements.hpp"
#include "store/rows.hpp"

namespace dblock::doctor {
namespace {

// An idle timeout below this is shorter than the pauses between the statements of a waiting or renewing
// dblock.
constexpr std::uint64_t k_short_idle_seconds = 60;
// From this share of connections on waiters poll; as in sql/verbs/mariadb/sleep_mariadb.sql.
constexpr double k_crowded = 0.8;

bool is_set(const std::optional<std::string>& value) {
  return value && value->find_first_of("123456789") != std::string::npos;
}

// dblock sets most timeouts in its own sessions; this judges those that it cannot set.
Finding timeouts(const HostFacts& facts) {
  const auto idle = facts.variable({"wait_timeout"});
  const auto statement = facts.variable({"max_statement_time"});
  const std::string found = (idle ? "wait_timeout=" + *idle : "wait_timeout not known") +
                            (is_set(statement) ? ", max_statement_time=" + *statement : "");
  if (is_set(statement)) {
    return {
        "timeouts",
        Level::warn,
        found,
        "the server cuts off waiters that wait in line for longer, and a statement that waits for a replica: "
        "the lease is then there without it; set max_statement_time=0 for this account",
        {}};
  }
  if (idle && store::unsigned_number(idle) < k_short_idle_seconds)
    return {"timeouts", Level::warn, found, "sessions are dropped between two statements", {}};
  return {"timeouts", Level::ok, found, "dblock sets lock waits and the rest by itself", {}};
}

Finding connections(const HostFacts& facts) {
  const auto most = store::unsigned_number(facts.variable({"max_connections"}));
  const auto used = store::unsigned_number(facts.state({"threads_connected"}));
  if (most == 0) return {"connections", Level::ok, "not known", "", {}};
  const std::string found = std::to_string(used) + " of " + std::to_string(most);
  if (static_cast<double>(used) > k_crowded * static_cast<double>(most)) {
    return {"connections",
            Level::warn,
            found,
            "above 80 % waiters look at the lock now and then instead of sleeping, and jobs may find no "
            "connection; raise "
            "max_connections",
            {}};
  }
  return {
      "connections", Level::ok, found, "a job needs one, and waiters sleep in a fifth of them at most", {}};
}

Finding named_locks(const HostFacts& facts) {
  constexpr const char* k_consequence =
      "waiters look at the lock now and then instead of sleeping until it is free; order and exclusion do "
      "not depend on it";
  if (!facts.named_lock) {
    return {"named-locks", Level::warn, "refused", facts.named_lock.error().words + ": " + k_consequence, {}};
  }
  if (!*facts.named_lock) return {"named-locks", Level::warn, "GET_LOCK answers NULL", k_consequence, {}};
  return {"named-locks", Level::ok, "available", "waiters can sleep until it is their turn", {}};
}

// Settings that users ask about, and need not set.
Finding session(const HostFacts& facts) {
  std::string found = "sql_mode=" + facts.variable({"sql_mode"}).value_or("not known");
  if (const auto snapshot = facts.variable({"innodb_snapshot_isolation"}))
    found += ", innodb_snapshot_isolation=" + *snapshot;
  return {"session", Level::ok, found, "dblock sets mode, time zone and isolation in its sessions", {}};
}

Finding balancer(const HostFacts& facts) {
  if (facts.identity.empty() || facts.identity_of_second.empty())
    return {"balancer", Level::ok, "not known", "", {}};
  if (facts.identity == facts.identity_of_second)
    return {"balancer", Level::ok, "none seen", "two sessions reached the same server", {}};
  return {
      "balancer",
      Level::warn,
      facts.identity + " and " + facts.identity_of_second,
      "two sessions reached different servers: something in between spreads them. Waiters then look at the "
      "lock now and then, and unless it is one Galera cluster locks may be granted twice; name the servers "
      "themselves",
      {}};
}

}  // namespace

std::vector<Finding> judge_service(const HostFacts& facts) {
  if (!facts.failed.empty()) return {};
  std::vector<Finding> findings{timeouts(facts), connections(facts), named_locks(facts), session(facts),
                                balancer(facts)};
  for (auto& pause : judge_pauses(facts.pauses)) findings.push_back(std::move(pause));
  return findings;
}

std::vector<Finding> judge_pauses(const std::vector<lease::Pause>& pauses) {
  std::vector<Finding> findings;
  for (const auto& pause : pauses)
    findings.push_back(
        {"pause",
         Level::warn,
         lease::display_scope(pause.scope),
         lease::display_pause(pause) + "; no job starts there before, unless by `dblock resume`",
         {}});
  return findings;
}

}  // namespace dblock::doctor
