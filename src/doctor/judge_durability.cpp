#include <algorithm>
#include <chrono>

#include "doctor/judgements.hpp"
#include "lease/timing.hpp"
#include "store/rows.hpp"

namespace dblock::doctor {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_noticeable = 1s;
constexpr Micros k_default_ttl = 2min;

std::string seconds_of(Micros time) {
  const auto tenths = std::chrono::round<std::chrono::duration<long long, std::deci>>(std::chrono::abs(time));
  return std::to_string(tenths.count() / 10) + "." + std::to_string(tenths.count() % 10) + " s";
}

std::string counted(std::uint64_t n, const std::string& thing) {
  return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
}

// Only a difference beyond the round trip's own uncertainty counts.
Finding clock(const HostFacts& facts) {
  if (!facts.clock) return {"clock", Level::warn, "not known", "the server did not tell its time", {}};
  const Micros apart = std::chrono::abs(facts.clock->ahead) - facts.clock->uncertainty;
  const std::string found =
      seconds_of(facts.clock->ahead) + (facts.clock->ahead < 0us ? " behind" : " ahead of") + " this host";
  if (apart <= k_noticeable) return {"clock", Level::ok, found, "", {}};
  if (apart <= lease::k_max_default_margin) {
    return {"clock",
            Level::warn,
            found,
            "leases go by the server's clock alone, but one of the two is wrong",
            {}};
  }
  return {"clock",
          Level::bad,
          found,
          "one of the two is wrong. If it is the server's, the day it is set right moves the end of every "
          "lease by more than the margin of " +
              seconds_of(lease::k_max_default_margin) + " makes up for; see to its time synchronisation",
          {}};
}

Finding read_only(const HostFacts& facts) {
  if (!facts.is_read_only()) return {"read-only", Level::ok, "no", "this host takes writes", {}};
  const bool super = facts.is_on({"super_read_only"});
  return {"read-only",
          Level::bad,
          super ? "super_read_only" : "read_only",
          "no lock can be taken here; name the primary in the URL",
          {}};
}

Finding replica(const HostFacts& facts) {
  if (!facts.replica_known)
    return {"replica", Level::ok, "not known", "the account may not ask, and need not", {}};
  if (!facts.replica) return {"replica", Level::ok, "no", "this server follows no other", {}};
  const auto lag = facts.replica->find("seconds_behind_source") != facts.replica->end()
                       ? facts.replica->at("seconds_behind_source")
                       : std::string();
  if (lag.empty()) {
    return {"replica",
            Level::warn,
            "replication has stopped",
            "made the primary, this server would know nothing of the leases granted since",
            {}};
  }
  const Level level = store::unsigned_number(lag) > 3 ? Level::warn : Level::ok;
  return {"replica",
          level,
          lag + " s behind",
          level == Level::ok ? "" : "made the primary, it would know nothing of the leases granted since",
          {}};
}

Finding flush_log(const HostFacts& facts) {
  const auto value = facts.variable({"innodb_flush_log_at_trx_commit"});
  if (!value) return {"flush-log", Level::ok, "not known", "the server has no such setting", {}};
  const std::string found = "innodb_flush_log_at_trx_commit=" + *value;
  if (*value == "1")
    return {"flush-log", Level::ok, found, "a granted lease survives a crash of the host", {}};
  const std::string what = *value == "0" ? "a crash of the server" : "a power cut or a crash of its host";
  return {"flush-log",
          Level::warn,
          found,
          what + " forgets the leases of the last second, and others take those locks; set it to 1",
          {}};
}

// Crash recovery trusts the binary log, and replicas read it.
Finding binary_log(const HostFacts& facts) {
  if (!facts.is_on({"log_bin"})) return {"binary-log", Level::ok, "off", "nothing to lose there", {}};
  const auto sync = facts.variable({"sync_binlog"});
  const auto format = facts.variable({"binlog_format"});
  const std::string found = (sync ? "sync_binlog=" + *sync : "on") + (format ? ", " + *format : "");
  if (sync && *sync != "1") {
    return {"binary-log",
            Level::warn,
            found,
            "after a power cut the replicas may know leases that this server forgot, or miss some; set "
            "sync_binlog=1",
            {}};
  }
  return {"binary-log", Level::ok, found, "", {}};
}

struct SemiSync {
  bool enabled = false;
  bool active = false;
  std::uint64_t clients = 0;
  std::string wait_point;
  Micros timeout{0};
  bool waits_without_replica = true;
};

SemiSync semi_sync_of(const HostFacts& facts) {
  SemiSync semi;
  semi.enabled = facts.is_on({"rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"});
  semi.active = facts.state({"rpl_semi_sync_master_status", "rpl_semi_sync_source_status"}) == "ON";
  semi.clients =
      store::unsigned_number(facts.state({"rpl_semi_sync_master_clients", "rpl_semi_sync_source_clients"}));
  semi.wait_point = facts.variable({"rpl_semi_sync_master_wait_point", "rpl_semi_sync_source_wait_point"})
                        .value_or("AFTER_SYNC");
  semi.timeout = std::chrono::milliseconds(store::unsigned_number(
      facts.variable({"rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout"})));
  semi.waits_without_replica =
      facts.variable({"rpl_semi_sync_master_wait_no_slave", "rpl_semi_sync_source_wait_no_replica"})
          .value_or("ON") == "ON";
  return semi;
}

// Why a primary that has lost its replicas could go on granting; empty: it could not.
std::string weakness_of(const SemiSync& semi) {
  if (semi.wait_point != "AFTER_SYNC")
    return "with wait point " + semi.wait_point +
           " others see a lease before a replica has it; set AFTER_SYNC";
  if (!semi.waits_without_replica)
    return "without a replica it does not wait at all; set wait_no_slave (wait_no_replica) to ON";
  if (semi.timeout < k_default_ttl)
    return "without an answer it goes on alone after " + seconds_of(semi.timeout) +
           "; set a timeout well above the TTL of the jobs";
  return {};
}

// True for a replica with semi-synchronous replication on and no replica of its own. Nothing acknowledges
// what its applier commits, so the applier waits for ever, or for the timeout each time.
bool applier_waits_in_vain(const HostFacts& facts, const SemiSync& semi) {
  const bool follows_another = facts.replica_known ? facts.replica.has_value() : facts.is_read_only();
  return follows_another && semi.enabled && semi.clients == 0 && semi.waits_without_replica;
}

Finding semi_sync(const HostFacts& facts, unsigned min_replicas) {
  const SemiSync semi = semi_sync_of(facts);
  if (applier_waits_in_vain(facts, semi)) {
    return {"semi-sync",
            Level::bad,
            "on, as if this replica were the primary",
            "its applier waits for an acknowledgement that no server gives, so that it receives leases and "
            "applies none; set rpl_semi_sync_master_enabled (MySQL: rpl_semi_sync_source_enabled) to OFF "
            "until it is promoted",
            {}};
  }
  const std::string wanted = "min-replicas=" + std::to_string(min_replicas);
  if (!semi.enabled && min_replicas == 0)
    return {"semi-sync", Level::ok, "off", "and min-replicas asks for none", {}};
  if (!semi.enabled)
    return {"semi-sync", Level::bad, "off", wanted + ": nothing will be granted (69); enable it", {}};
  const std::string found = counted(semi.clients, "replica") +
                            (semi.active ? "" : ", fallen back to asynchronous") + ", " + semi.wait_point;
  if (semi.clients < min_replicas || (min_replicas > 0 && !semi.active))
    return {
        "semi-sync", Level::bad, found, wanted + ": nothing is granted (69) until enough acknowledge", {}};
  if (!semi.active) {
    return {"semi-sync", Level::warn, found, "a failover now may forget leases; are the replicas up?", {}};
  }
  if (const auto weakness = weakness_of(semi); !weakness.empty())
    return {"semi-sync", Level::warn, found, weakness, {}};
  return {"semi-sync",
          Level::ok,
          found,
          "a granted lease has been received by a replica; whether it is applied there is not seen from here",
          {}};
}

Finding galera(const HostFacts& facts) {
  if (!facts.in_galera()) return {"galera", Level::ok, "no", "this server is not a node of a cluster", {}};
  const auto status = facts.state({"wsrep_cluster_status"}).value_or("");
  const auto state = facts.state({"wsrep_local_state_comment"}).value_or("");
  const auto size = store::unsigned_number(facts.state({"wsrep_cluster_size"}));
  const std::string found = status + ", " + state + ", " + counted(size, "node");
  if (status != "Primary" || facts.state({"wsrep_ready"}) != "ON") {
    return {"galera",
            Level::bad,
            found,
            "the node is not in the cluster's majority and grants nothing; see to its network",
            {}};
  }
  if (state != "Synced") {
    return {"galera", Level::warn, found, "the node is behind or feeds another; its answers may be old", {}};
  }
  if (size < 3) {
    return {"galera",
            Level::warn,
            found,
            "with fewer than three nodes one lost node stops the others: there is no majority",
            {}};
  }
  return {"galera", Level::ok, found, "", {}};
}

}  // namespace

std::vector<Finding> judge_durability(const HostFacts& facts, unsigned min_replicas) {
  if (!facts.failed.empty()) return {};
  return {clock(facts),     read_only(facts),  replica(facts),
          flush_log(facts), binary_log(facts), semi_sync(facts, min_replicas),
          galera(facts),    judge_group(facts)};
}

}  // namespace dblock::doctor
