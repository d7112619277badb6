#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include "doctor/judgements.hpp"
#include "lease/timing.hpp"

namespace dblock::doctor {
namespace {

using namespace std::chrono_literals;

bool is_primary(const HostFacts& facts) {
  return facts.failed.empty() && !facts.is_read_only() && facts.group_member != false;
}

// The cluster (Galera, group replication) that makes several writable servers one; empty: none.
std::string cluster_of(const HostFacts& facts) {
  if (facts.in_galera()) return facts.state({"wsrep_cluster_state_uuid"}).value_or("");
  return facts.replication_group();
}

// A spare host may be away or read-only: another host takes the locks meanwhile.
void excuse_spare(Finding& finding) {
  if (finding.level != Level::bad) return;
  if (finding.check == "connection") {
    finding.level = Level::warn;
    finding.message += "; meanwhile another host of the list takes the locks";
  }
  if (finding.check == "read-only") {
    finding.level = Level::ok;
    finding.message = "passed over while another host of the list takes writes";
  }
}

Finding writers(const std::vector<HostFacts>& hosts) {
  std::vector<const HostFacts*> primaries;
  for (const auto& facts : hosts) {
    if (is_primary(facts)) primaries.push_back(&facts);
  }
  if (primaries.empty()) return {"writers", Level::bad, "none", "no host of the list takes writes", {}};
  std::string found;
  for (const auto* facts : primaries) found += (found.empty() ? "" : ", ") + facts->host;
  if (primaries.size() == 1) return {"writers", Level::ok, found, "one host takes writes", {}};
  const std::string cluster = cluster_of(*primaries.front());
  const bool one_cluster = !cluster.empty() && std::ranges::all_of(primaries, [&](const HostFacts* facts) {
    return cluster_of(*facts) == cluster;
  });
  if (one_cluster) return {"writers", Level::ok, found, "nodes of one cluster", {}};
  const bool one_server = std::ranges::all_of(primaries, [&](const HostFacts* facts) {
    return !facts->identity.empty() && facts->identity == primaries.front()->identity;
  });
  if (one_server) return {"writers", Level::ok, found, "names of one server", {}};
  return {"writers",
          Level::bad,
          found,
          "each takes writes and they are no cluster: the same lock can be held on each of them. Set "
          "read_only on all but one",
          {}};
}

Finding failover(const std::vector<HostFacts>& hosts) {
  const auto primary = std::ranges::find_if(hosts, is_primary);
  const bool replicated = primary != hosts.end() &&
                          (!cluster_of(*primary).empty() ||
                           primary->is_on({"rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"}));
  if (replicated) return {"failover", Level::ok, "", "a granted lease has been received by another host", {}};
  return {"failover",
          Level::warn,
          "asynchronous replication",
          "a failover may forget the leases granted just before it, and others take those locks; see "
          "semi-synchronous replication and min-replicas in dblock-safety(7)",
          {}};
}

// After a failover the clock of another host decides when a lease ends.
Finding clocks(const std::vector<HostFacts>& hosts) {
  std::optional<Micros> least;
  std::optional<Micros> most;
  Micros blur{0};
  for (const auto& facts : hosts) {
    if (!facts.failed.empty() || !facts.clock) continue;
    least = std::min(least.value_or(facts.clock->ahead), facts.clock->ahead);
    most = std::max(most.value_or(facts.clock->ahead), facts.clock->ahead);
    blur = std::max(blur, facts.clock->uncertainty);
  }
  if (!least) return {"clocks", Level::warn, "not known", "no host told its time", {}};
  const auto apart = std::chrono::duration_cast<std::chrono::milliseconds>(*most - *least);
  const std::string found = std::to_string(apart.count()) + " ms apart";
  const Micros sure = apart - 2 * blur;
  if (sure <= 1s) return {"clocks", Level::ok, found, "", {}};
  return {"clocks",
          sure <= lease::k_max_default_margin ? Level::warn : Level::bad,
          found,
          "after a failover a lease may end that much earlier than its holder believes; the margin makes up "
          "for 3 s by default. See to the time synchronisation of the hosts",
          {}};
}

std::vector<Finding> judge_one(const HostFacts& facts, unsigned min_replicas) {
  auto findings = judge_access(facts);
  for (auto& more : {judge_durability(facts, is_primary(facts) ? min_replicas : 0), judge_service(facts)})
    findings.insert(findings.end(), more.begin(), more.end());
  for (auto& finding : findings) finding.host = facts.host;
  return findings;
}

}  // namespace

std::vector<Finding> judge_hosts(const std::vector<HostFacts>& hosts, unsigned min_replicas) {
  std::vector<Finding> all;
  for (const auto& facts : hosts) {
    const bool spare = std::ranges::any_of(
        hosts, [&](const HostFacts& other) { return &other != &facts && is_primary(other); });
    for (auto& finding : judge_one(facts, min_replicas)) {
      if (spare) excuse_spare(finding);
      all.push_back(std::move(finding));
    }
  }
  if (hosts.size() < 2) {
    for (auto& finding : all) finding.host.clear();
    return all;
  }
  all.push_back(writers(hosts));
  all.push_back(failover(hosts));
  all.push_back(clocks(hosts));
  return all;
}

std::vector<Finding> judge_server(const ServerFacts& facts) {
  if (!facts.client_library)
    return {{"connection", Level::bad, "", facts.client_library.error().message, {}}};
  std::vector<Finding> findings{
      {"client-library", Level::ok, *facts.client_library, "MariaDB's, as loaded here", {}}};
  std::ranges::move(judge_hosts(facts.hosts, facts.min_replicas), std::back_inserter(findings));
  return findings;
}

}  // namespace dblock::doctor
