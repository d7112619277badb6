// Proves that the replies of a new session come from the server, and that each answers the right statement.
//
// Connector/C (3.3 and 3.4 alike) keeps unread bytes of the connection when TLS begins. So an attacker can
// append plaintext packets to the server's greeting, and the library takes them for the replies to the login
// and the first statements, whatever the certificate. But the attacker wrote them before dblock drew a random
// number for the first statement, so none of them can hold that number. Once a reply holds the number, all
// packets before it are used up, and from there on each reply belongs to its statement.
//
// The number comes back by session tracking (MySQL 5.7, MariaDB 10.2 and later), which costs no statement. If
// a proxy does not pass that on, a SELECT asks for another number.
#pragma once

#include <mysql.h>

#include <cstdint>
#include <expected>
#include <string>

#include "store/mariadb/session/errors.hpp"

namespace dblock::store::mariadb {

struct Challenged {
  std::uint64_t number = 0;  // a multiple of four, and random
  // The server writes statements into its binary log as they are (binlog_format=STATEMENT). There a statement
  // must mean the same on a replica, so none may ask which server it runs on. The reply holds the number plus
  // one then.
  bool logs_statements = false;
  // MySQL's plugin for group replication is loaded. The reply holds the number plus two then. False on
  // MariaDB, which is not asked.
  bool has_group_plugin = false;
};

// Sends `set` with the challenge appended. `set` is a list of assignments that begins with SET and ends under
// the keyword SESSION. Returns the number once a reply holds it. If the server refuses, returns the server's
// words; if the reply does not hold the number, dblock's words with error 0. REQUIRES: a session that is
// logged in.
[[nodiscard]] std::expected<Challenged, ServerError> send_with_challenge(MYSQL* handle,
                                                                         const std::string& set);

// Makes a session that is logged in a bare one, fit for reading: sends session_basics() with the challenge.
[[nodiscard]] std::expected<Challenged, ServerError> set_up_bare(MYSQL* handle);

}  // namespace dblock::store::mariadb
