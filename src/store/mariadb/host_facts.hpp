// What one host told `doctor`, before anybody judges it. Plain values, so that tests can make them up.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "store/config/settings.hpp"
#include "store/mariadb/errors.hpp"

namespace dblock::store::mariadb {

// Answers of SHOW VARIABLES or SHOW STATUS by name, in lower case.
using Names = std::map<std::string, std::string, std::less<>>;

// A privilege that jobs need, and what the server said to a statement that needs it and does nothing.
struct PrivilegeTried {
  std::string privilege;  // "UPDATE on dblock_lock"
  unsigned native = 0;    // 0: allowed
};

// The server's clock minus ours, from the middle of the shortest of a few round trips.
struct ClockReading {
  Micros ahead{0};
  Micros uncertainty{0};
};

// Why a server without this answer gave none, or the answer.
template <typename T>
using Answer = std::expected<T, ServerWords>;

struct HostFacts {
  std::string host;    // as shown: "db1:3307", "socket /run/x"
  std::string failed;  // why there is no session; everything below is then unknown

  bool over_socket = false;
  TlsMode tls = TlsMode::prefer;
  std::string cipher;  // empty: not encrypted
  Micros connect_time{0};
  std::string version;
  std::string account;  // CURRENT_USER()
  std::string database;

  Names variables;
  Names status;
  std::vector<std::string> grants;  // SHOW GRANTS
  std::vector<PrivilegeTried> privileges;

  Answer<unsigned> schema_version{0};
  unsigned schema_needed = 0;
  std::map<std::string, std::string> engines;  // of dblock's tables, as far as the account may see them
  std::string key_type;                        // of dblock_lock.lock_key; empty: not known

  std::optional<bool> keeps_history;               // not known without tables
  std::vector<PrivilegeTried> history_privileges;  // for the table of it, where it is kept

  std::optional<ClockReading> clock;
  Answer<std::optional<std::string>> named_lock;  // what GET_LOCK answered
  std::optional<Names> replica;    // the row of SHOW REPLICA STATUS, names in lower case; empty: no replica
  bool replica_known = false;      // the account may ask
  std::string identity;            // of the server behind this session and …
  std::string identity_of_second;  // … a second one; empty: not known

  // The value of a variable (or status) by the first of its names that the server knows.
  [[nodiscard]] std::optional<std::string> variable(std::initializer_list<std::string_view> names) const;
  [[nodiscard]] std::optional<std::string> state(std::initializer_list<std::string_view> names) const;
  // "ON" or a number other than 0.
  [[nodiscard]] bool is_on(std::initializer_list<std::string_view> names) const;
  [[nodiscard]] bool is_read_only() const;
  [[nodiscard]] bool in_galera() const;
};

}  // namespace dblock::store::mariadb
