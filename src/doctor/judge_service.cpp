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
// One session in so many may be a waiter's, and so many at most; as there.
constexpr std::uint64_t k_waiters_part = 5;
constexpr std::uint64_t k_most_waiters = 500;
// By default a lease is renewed every 15 seconds.
constexpr std::uint64_t k_renewals_an_hour = 240;

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

// A limit of sessions, and how many of them are in use; nullopt: not known.
struct SessionLimit {
  std::string name;
  std::uint64_t most;
  std::optional<std::uint64_t> used;
};

// The limits that this host has, as far as the account may read them.
std::vector<SessionLimit> session_limits(const HostFacts& facts) {
  std::vector<SessionLimit> limits;
  if (const auto most = store::unsigned_number(facts.variable({"max_connections"})))
    limits.push_back({"max_connections", most, store::unsigned_number(facts.state({"threads_connected"}))});
  if (facts.limits.sessions != 0)
    limits.push_back({"max_user_connections", facts.limits.sessions, facts.limits.sessions_used});
  if (facts.variable({"thread_handling"}) == "pool-of-threads") {
    if (const auto most = store::unsigned_number(facts.variable({"thread_pool_max_threads"})))
      limits.push_back({"thread_pool_max_threads", most, std::nullopt});
  }
  return limits;
}

std::string display(const SessionLimit& limit) {
  if (!limit.used) return limit.name + "=" + std::to_string(limit.most);
  return std::to_string(*limit.used) + " of " + limit.name + "=" + std::to_string(limit.most);
}

Finding connections(const HostFacts& facts) {
  const auto limits = session_limits(facts);
  if (limits.empty()) return {"connections", Level::ok, "not known", "", {}};
  const auto crowded = std::ranges::find_if(limits, [](const SessionLimit& limit) {
    return limit.used && static_cast<double>(*limit.used) > k_crowded * static_cast<double>(limit.most);
  });
  if (crowded != limits.end()) {
    return {"connections",
            Level::warn,
            display(*crowded),
            "above 80 % waiters look at the lock now and then instead of sleeping, holders connect for their "
            "renewals alone (unless connection=keep), and jobs may find no connection; raise " +
                crowded->name,
            {}};
  }
  const SessionLimit& smallest = *std::ranges::min_element(limits, {}, &SessionLimit::most);
  const std::uint64_t seats = std::clamp<std::uint64_t>(smallest.most / k_waiters_part, 1, k_most_waiters);
  return {"connections",
          Level::ok,
          display(smallest),
          "a job needs one; at most " + std::to_string(seats) +
              (seats == 1 ? " waiter sleeps" : " waiters sleep") +
              " until woken, the others look now and then",
          {}};
}

// What the account may do in an hour, and how many jobs at a time that is enough for.
Finding hourly_limits(const HostFacts& facts) {
  const auto& limits = facts.limits;
  std::string found;
  std::string message;
  const auto add = [&found](const std::string& name, std::uint64_t limit) {
    if (limit != 0) found += (found.empty() ? "" : ", ") + name + "=" + std::to_string(limit);
    return limit != 0;
  };
  const auto add_of_renewals = [&](const std::string& name, std::uint64_t limit) {
    if (!add(name, limit)) return;
    const std::uint64_t jobs = limit / k_renewals_an_hour;
    message +=
        name + " is enough for " + std::to_string(jobs) + (jobs == 1 ? " job" : " jobs") + " at a time; ";
  };
  add_of_renewals("MAX_QUERIES_PER_HOUR", limits.queries_per_hour);
  add_of_renewals("MAX_UPDATES_PER_HOUR", limits.updates_per_hour);
  if (!message.empty()) {
    message += "a job renews its lease " + std::to_string(k_renewals_an_hour) +
               " times an hour, and one that cannot is stopped. ";
  }
  if (add("MAX_CONNECTIONS_PER_HOUR", limits.connections_per_hour))
    message +=
        "each run connects, each waiter does for its looks, and each renewal does with connection=brief. ";
  if (found.empty()) return {"hourly-limits", Level::ok, "none known", "", {}};
  return {"hourly-limits", Level::warn, found, message + "Take these limits from this account", {}};
}

Finding named_locks(const HostFacts& facts) {
  constexpr const char* k_consequence =
      "waiters look at the lock now and then instead of sleeping until it is free; order and exclusion do "
      "not depend on it";
  if (!facts.named_lock) {
    return {
        "named-locks", Level::warn, "refused", facts.named_lock.error().message + ": " + k_consequence, {}};
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
  std::vector<Finding> findings{timeouts(facts),    connections(facts), hourly_limits(facts),
                                named_locks(facts), session(facts),     balancer(facts)};
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
