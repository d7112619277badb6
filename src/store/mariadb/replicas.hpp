// Checks semi-synchronous replication, for min-replicas. If the server dies before a replica has a grant, the
// next primary does not know of the grant and grants the same lock again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/rows.hpp"

namespace dblock::store::mariadb {

class Connection;

struct SemiSync {
  bool on = false;                   // commits wait for replicas; false once it fell back to asynchronous
  std::uint64_t replicas = 0;        // connected replicas that acknowledge, as far as the server knows
  std::uint64_t waits_for = 1;       // acknowledgements that a commit waits for
  std::uint64_t unacknowledged = 0;  // commits so far that returned without acknowledgement
  std::uint64_t waiting = 0;         // commits that are waiting for an acknowledgement now
};

// Reads the rows (name and value) of SHOW STATUS and SHOW VARIABLES; ignores unrelated names. nullopt: the
// server has no semi-synchronous replication.
[[nodiscard]] std::optional<SemiSync> read_semi_sync(const std::vector<Row>& status,
                                                     const std::vector<Row>& variables);

// Why dblock must not grant locks; nullopt if it may.
[[nodiscard]] std::optional<std::string> short_of(const std::optional<SemiSync>& now, std::uint64_t replicas);

// The same for MySQL's setting for the number of acknowledgements, which must not be below min-replicas.
// MariaDB has no such setting.
[[nodiscard]] std::optional<std::string> waits_for_fewer(const SemiSync& now, std::uint64_t replicas);

// True if some commit waits for an acknowledgement at this moment. REQUIRES: as Connection::read().
[[nodiscard]] Result<bool> commits_wait_for_replicas(Connection& connection);

// Checks replication around each grant. MariaDB always waits for one acknowledgement only. If min-replicas is
// more than one, dblock can merely check that so many replicas are connected.
class ReplicaCheck {
 public:
  explicit ReplicaCheck(std::uint64_t replicas) : replicas_(replicas) {}

  [[nodiscard]] bool wanted() const { return replicas_ > 0; }
  // Errc::unreachable if a commit would not be acknowledged. REQUIRES: as Connection::read().
  [[nodiscard]] Result<void> before_grant(Connection& connection);
  // Errc::unreachable if a commit since before_grant() may not have been acknowledged. REQUIRES: as
  // before_grant().
  [[nodiscard]] Result<void> after_grant(Connection& connection);

 private:
  [[nodiscard]] Result<std::optional<SemiSync>> ask(Connection& connection) const;
  [[nodiscard]] std::unexpected<Error> refusal(const Connection& connection, const std::string& why) const;

  std::uint64_t replicas_;
  std::uint64_t unacknowledged_before_ = 0;
};

}  // namespace dblock::store::mariadb
