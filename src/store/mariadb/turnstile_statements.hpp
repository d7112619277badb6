// The statements of the turnstile (turnstile.hpp): a named lock of the server for each key and schema. Their
// SQL is in sql/verbs/mariadb.
//
// A statement that takes the turn sets an extra mode in the session's sql_mode if it succeeds. The status
// flags of every reply show that mode, so dblock knows without a further statement whether it has the turn.
// The mode, NO_BACKSLASH_ESCAPES, changes nothing else: dblock's statements hold no backslash.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lease/types.hpp"
#include "store/open.hpp"

namespace dblock::store::mariadb {

// The value of sql_mode as an SQL expression. With `turnstile_key` the expression takes that key's named lock
// if it is free, and the mode then says whether this session has the turn. Without `turnstile_key` the mode
// says no.
[[nodiscard]] std::string session_mode(const lease::Key* turnstile_key);

// Waits for the turn without a time limit, and announces the waiter in a comment that the process list shows.
// From then on the server drops the session once it is idle for two seconds, so that a frozen first waiter
// does not block the turnstile. Ends at once and without the turn if more than four fifths of the server's
// connections are in use, because each waiter takes one.
[[nodiscard]] std::string queue_statement(bool server_is_mariadb, const lease::Key& key,
                                          const lease::Holder& waiter);

// Lists the waiters that the account may see, in the order of their arrival: each waiter's queue_statement(),
// and for how many microseconds it has waited.
[[nodiscard]] std::string waiters_statement(bool server_is_mariadb);

struct Announcement {
  std::string key;
  lease::Waiter waiter;  // without `since`
};
// The waiter announced by a queue_statement(); nullopt for any other statement.
[[nodiscard]] std::optional<Announcement> read_announcement(std::string_view statement);

// Gives the first waiter's session the short idle time of a waiter's session.
[[nodiscard]] std::string short_idle_statement();
// Gives the session its usual idle time again; for a session that now holds a lease.
[[nodiscard]] std::string usual_idle_statement(const SessionOptions& options);

}  // namespace dblock::store::mariadb
