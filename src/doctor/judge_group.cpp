// What a MySQL replication group means for leases: whether this server is a member that may grant, and what
// its settings do.
#include <algorithm>

#include "doctor/judgements.hpp"

namespace dblock::doctor {
namespace {

constexpr const char* k_check = "replication-group";

// The state that the server tells of itself, "ERROR"; empty: the account may not read it.
std::string own_state(const HostFacts& facts) {
  const auto self = std::ranges::find_if(facts.group_members, &store::GroupMember::answers);
  return self == facts.group_members.end() ? "" : self->state;
}

bool is_multi_primary(const HostFacts& facts) {
  return !facts.is_on({"group_replication_single_primary_mode"});
}

std::string consistency_of(const HostFacts& facts) {
  return facts.variable({"group_replication_consistency"}).value_or("EVENTUAL");
}

// 0: the account may not read the members.
std::ptrdiff_t online_members(const HostFacts& facts) {
  return std::ranges::count(facts.group_members, "ONLINE", &store::GroupMember::state);
}

std::string described(const HostFacts& facts) {
  std::string found = std::string("ONLINE, ") +
                      (is_multi_primary(facts) ? "multi-primary" : "single-primary") + ", " +
                      consistency_of(facts);
  if (const auto online = online_members(facts); online > 0)
    found += ", " + std::to_string(online) + " ONLINE";
  return found;
}

Finding judge_stranger(const HostFacts& facts) {
  const std::string state = own_state(facts);
  const std::string named = state.empty() ? "not ONLINE" : state;
  const std::string takes = facts.is_read_only() ? ", read-only" : ", takes writes";
  if (state == "ONLINE") {  // by what it believes itself
    return {k_check,
            Level::bad,
            "cut off" + takes,
            "it reaches no majority of its group; dblock grants and renews nothing here (69), and the group "
            "does without it. See to its network",
            {}};
  }
  if (facts.is_read_only() && state == "RECOVERING")
    return {k_check, Level::warn, named + takes, "it is joining its group, and grants nothing before", {}};
  if (facts.is_read_only()) {
    return {k_check,
            state.empty() ? Level::warn : Level::bad,
            named + takes,
            "it has left its group, and dblock grants and renews nothing here (69). Run START "
            "GROUP_REPLICATION on it",
            {}};
  }
  return {
      k_check,
      Level::bad,
      named + takes,
      "the group does not get what is written here; dblock grants and renews nothing (69). Run START "
      "GROUP_REPLICATION on it, and set super_read_only=ON in its configuration file, so that it takes no "
      "writes before it has joined",
      {}};
}

// dblock sets the consistency of its own sessions; those of applications have the server's.
std::string weakness_of(const HostFacts& facts) {
  const std::string consistency = consistency_of(facts);
  if (consistency.starts_with("BEFORE") && consistency != "BEFORE_ON_PRIMARY_FAILOVER") return {};
  if (is_multi_primary(facts) && consistency != "AFTER") {
    return "a member that lags behind may tell an application that it has lost a lock that it holds; set "
           "group_replication_consistency=BEFORE";
  }
  if (consistency != "EVENTUAL") return {};
  return "after a failover the new primary may tell an application that it has lost a lock that it holds; "
         "set "
         "group_replication_consistency=BEFORE_ON_PRIMARY_FAILOVER";
}

}  // namespace

Finding judge_group(const HostFacts& facts) {
  if (facts.replication_group().empty())
    return {k_check, Level::ok, "no", "no group is configured on this server", {}};
  if (!facts.group_member) {
    return {k_check,
            Level::warn,
            "not known",
            "MySQL tells from 8.0.16 on whether it is a member; on an older server that has left its group, "
            "locks can be held beside those of the group",
            {}};
  }
  if (!*facts.group_member) return judge_stranger(facts);
  const std::string found = described(facts);
  if (const auto online = online_members(facts); online > 0 && online < 3) {
    return {k_check,
            Level::warn,
            found,
            "with fewer than three members one lost member stops the others: there is no majority",
            {}};
  }
  if (const auto weakness = weakness_of(facts); !weakness.empty())
    return {k_check, Level::warn, found, weakness, {}};
  return {k_check, Level::ok, found, "", {}};
}

}  // namespace dblock::doctor
