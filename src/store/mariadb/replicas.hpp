// What semi-synchronous replication says of itself, for min-replicas. A grant that no replica has
// acknowledged dies with the server that made it, and the next server would grant the same lock again.
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
  bool on = false;                   // it waits for replicas; off once it has fallen back
  std::uint64_t replicas = 0;        // connected, and acknowledging as far as the server knows
  std::uint64_t waits_for = 1;       // acknowledgements before a commit returns
  std::uint64_t unacknowledged = 0;  // commits that returned without, ever
  std::uint64_t waiting = 0;         // commits that wait for one now
};

// Rows of name and value, as SHOW STATUS and SHOW VARIABLES give them; what is not about this is passed over.
// nullopt: the server does no semi-synchronous replication.
[[nodiscard]] std::optional<SemiSync> read_semi_sync(const std::vector<Row>& status,
                                                     const std::vector<Row>& variables);

// Why nothing may be granted; nullopt when something may.
[[nodiscard]] std::optional<std::string> short_of(const std::optional<SemiSync>& now, std::uint64_t replicas);

// Some commit waits for an acknowledgement at this moment. REQUIRES: as Connection::read().
[[nodiscard]] Result<bool> commits_wait_for_replicas(Connection& connection, const std::string& attempt);

// Around each grant. MariaDB waits for one acknowledgement however many replicas there are: with more than
// one asked for, that so many are there is all that can be known.
class ReplicaCheck {
 public:
  explicit ReplicaCheck(std::uint64_t replicas) : replicas_(replicas) {}

  [[nodiscard]] bool wanted() const { return replicas_ > 0; }
  // Errc::unreachable where a commit would not be acknowledged. REQUIRES: as Connection::read().
  [[nodiscard]] Result<void> before(Connection& connection, const std::string& attempt);
  // … where one since before() may not have been.
  [[nodiscard]] Result<void> after(Connection& connection, const std::string& attempt);

 private:
  [[nodiscard]] Result<std::optional<SemiSync>> ask(Connection& connection, const std::string& attempt) const;
  [[nodiscard]] std::unexpected<Error> refusal(const Connection& connection, const std::string& attempt,
                                               const std::string& why) const;

  std::uint64_t replicas_;
  std::uint64_t unacknowledged_before_ = 0;
};

}  // namespace dblock::store::mariadb
