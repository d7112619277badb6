// Proof that the replies of a new session are the server's, and answer what was asked.
//
// Connector/C (3.3 and 3.4 alike) keeps what it has read of a connection when TLS begins. Packets that an
// attacker appends to the server's greeting, in the clear, are so taken for the replies to login and to the
// first statements, whatever the certificate. They were written before the session's first statement, so none
// of them can hold a number that is drawn for it: the reply that tells the number has nothing before it that
// is not the server's, and replies are in step with statements from there on.
//
// The number comes back by session tracking (MySQL 5.7, MariaDB 10.2 and later), which costs no statement.
// Where a proxy does not pass that on, a SELECT asks for another number.
#pragma once

#include <mysql.h>

#include <cstdint>
#include <expected>
#include <string>

#include "store/mariadb/errors.hpp"

namespace dblock::store::mariadb {

// Sends `set`, a list of assignments that begins with SET and ends under the keyword SESSION, with the
// challenge appended. Succeeds only where the reply proves itself, with the number. What the server refuses
// comes back in its words; what is not the server's, in ours, with 0 as the error. REQUIRES: a session that
// is logged in.
[[nodiscard]] std::expected<std::uint64_t, ServerWords> send_with_challenge(MYSQL* handle,
                                                                            const std::string& set);

// What makes a session that is logged in a bare one, fit for reading: session_basics() with the challenge.
[[nodiscard]] std::expected<std::uint64_t, ServerWords> set_up_bare(MYSQL* handle);

}  // namespace dblock::store::mariadb
