#include "store/mariadb/replicas.hpp"

#include <charconv>
#include <string_view>

#include "store/mariadb/session/connection.hpp"
#include "store/mariadb/sql.hpp"

namespace dblock::store::mariadb {
namespace {

// The part behind the role ("status") of "Rpl_semi_sync_master_status" or, on newer MySQL,
// "Rpl_semi_sync_source_status"; empty for other names.
std::string_view part_about_source(std::string_view name) {
  for (const std::string_view role : {"_semi_sync_master_", "_semi_sync_source_"}) {
    if (const auto at = name.find(role); at != std::string_view::npos) return name.substr(at + role.size());
  }
  return {};
}

std::uint64_t count_in(std::string_view text) {
  std::uint64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

}  // namespace

std::optional<SemiSync> read_semi_sync(const std::vector<Row>& status, const std::vector<Row>& variables) {
  SemiSync read;
  bool found = false;
  for (const Row& row : status) {
    const std::string name = row[0].value_or("");
    const std::string_view part = part_about_source(name);
    const std::string value = row[1].value_or("");
    found = found || part == "status";
    if (part == "status") read.on = value == "ON";
    if (part == "clients") read.replicas = count_in(value);
    if (part == "no_tx") read.unacknowledged = count_in(value);
    if (part == "wait_sessions") read.waiting = count_in(value);
  }
  for (const Row& row : variables) {
    const std::string name = row[0].value_or("");
    const std::string_view part = part_about_source(name);
    if (part == "wait_for_slave_count" || part == "wait_for_replica_count")
      read.waits_for = count_in(row[1].value_or(""));
  }
  return found ? std::optional(read) : std::nullopt;
}

std::optional<std::string> short_of(const std::optional<SemiSync>& now, std::uint64_t replicas) {
  if (!now) return "the server has no semi-synchronous replication";
  if (now->replicas < replicas)
    return "the server has " + std::to_string(now->replicas) + " semi-synchronous replicas";
  if (!now->on) return "semi-synchronous replication is off or has fallen back to asynchronous";
  return std::nullopt;
}

std::optional<std::string> waits_for_fewer(const SemiSync& now, std::uint64_t replicas) {
  if (now.waits_for >= replicas) return std::nullopt;
  return "the server waits for " + std::to_string(now.waits_for) +
         " acknowledgement (rpl_semi_sync_source_wait_for_replica_count)";
}

Result<bool> commits_wait_for_replicas(Connection& connection) {
  DBLOCK_TRY(const auto status, connection.read(render(Verb::semi_sync_status)));
  const auto now = read_semi_sync(status, {});
  return now && now->waiting > 0;
}

Result<void> ReplicaCheck::before_grant(Connection& connection) {
  if (!wanted()) return {};
  DBLOCK_TRY(const auto now, ask(connection));
  if (const auto why = short_of(now, replicas_)) return refusal(connection, *why);
  if (const auto why = waits_for_fewer(*now, replicas_); why && !connection.is_mariadb())
    return refusal(connection, *why);
  unacknowledged_before_ = now->unacknowledged;
  return {};
}

// That replication is on does not suffice: the server switches it on again as soon as it sends a replica the
// last commit. So the count of unacknowledged commits must not have changed.
Result<void> ReplicaCheck::after_grant(Connection& connection) {
  if (!wanted()) return {};
  DBLOCK_TRY(const auto now, ask(connection));
  if (const auto why = short_of(now, replicas_)) return refusal(connection, *why);
  if (now->unacknowledged != unacknowledged_before_)
    return refusal(connection, "no replica acknowledged it in time");
  return {};
}

Result<std::optional<SemiSync>> ReplicaCheck::ask(Connection& connection) const {
  DBLOCK_TRY(const auto status, connection.read(render(Verb::semi_sync_status)));
  std::vector<Row> variables;
  if (replicas_ > 1) {
    DBLOCK_TRY(variables, connection.read(render(Verb::semi_sync_variables)));
  }
  return read_semi_sync(status, variables);
}

std::unexpected<Error> ReplicaCheck::refusal(const Connection& connection, const std::string& why) const {
  return connection.refuse(Errc::unreachable, why + ", and min-replicas=" + std::to_string(replicas_) +
                                                  " asks for " + std::to_string(replicas_) +
                                                  "; does replication work?");
}

}  // namespace dblock::store::mariadb
