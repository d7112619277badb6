// The SQL of the line in front of a lock (turnstile.hpp): a named lock of the server, one a key and schema.
//
// Statements that may get the turn say so in the session's sql_mode, and the mode in the status flags of
// every reply: so it is known without asking. The mode chosen changes nothing for dblock, whose statements
// hold no backslash.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lease/types.hpp"
#include "store/open.hpp"

namespace dblock::store::mariadb {

// Our session's modes as an SQL expression; without `line` they say that the turn is not ours, with it they
// say whether it is, which takes the named lock if nobody has it.
[[nodiscard]] std::string session_mode(const lease::Key* line);

// Waits in line, for as long as it takes, and announces who waits. From then on the server drops the session
// when it is idle for two seconds: a process that is frozen at the head of the line must not stop it. Ends at
// once and without the turn where more than four fifths of the server's connections are taken: waiting costs
// one each.
[[nodiscard]] std::string queue_statement(bool server_is_mariadb, const lease::Key& key,
                                          const lease::Holder& waiter);

// Who waits, in the order of arrival, as far as the account may see: the statement, and how many microseconds
// it has been waiting.
[[nodiscard]] std::string waiters_statement(bool server_is_mariadb);

struct Announcement {
  std::string key;
  lease::Waiter waiter;  // without `since`
};
// What queue_statement() announced; nothing where the text is another's.
[[nodiscard]] std::optional<Announcement> read_announcement(std::string_view statement);

// The idle time of those who wait, for one who leads them.
[[nodiscard]] std::string lead_statement();
// The session now holds a lease: the usual idle time again.
[[nodiscard]] std::string settle_statement(const SessionOptions& options);

}  // namespace dblock::store::mariadb
