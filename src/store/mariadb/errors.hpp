// The one place that turns the server's and the client library's error numbers into dblock's errors.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

namespace dblock::store::mariadb {

// What was under way when the error came; decides what a lost reply means.
enum class Phase {
  connect,  // nothing that matters was sent
  read,     // a statement that changes nothing
  write,    // a statement that changes rows: a lost reply leaves its outcome unknown
  commit,   // the end of a transaction: the same, and never sent twice, since a second one has nothing to do
};

struct ServerWords {
  unsigned native = 0;
  std::string text;
};

inline constexpr unsigned k_duplicate_key = 1062;
inline constexpr unsigned k_null_refused = 1048;
inline constexpr unsigned k_table_exists = 1050;
inline constexpr unsigned k_unknown_variable = 1193;
inline constexpr unsigned k_no_such_table = 1146;
inline constexpr unsigned k_lock_wait_timed_out = 1205;
inline constexpr unsigned k_table_denied = 1142;
inline constexpr unsigned k_access_denied = 1045;
inline constexpr unsigned k_access_denied_no_password = 1698;
inline constexpr unsigned k_connection_lost = 2013;     // CR_SERVER_LOST
inline constexpr unsigned k_plugin_not_allowed = 5010;  // CR_PLUGIN_NOT_ALLOWED
inline constexpr unsigned k_tls_failed = 2026;          // CR_SSL_CONNECTION_ERROR

// Rolled back by the server, and a second try has a fair chance: deadlock, lock wait timeout, row changed
// since it was read. On Galera 1213 is also the refusal at certification.
[[nodiscard]] bool is_transient(unsigned native);

// A row stayed locked for as long as the statement may wait, which may be not at all.
[[nodiscard]] bool is_lock_wait(unsigned native);

// The session is intact after this error: a statement was refused, nothing more.
[[nodiscard]] bool keeps_connection(unsigned native);

// The server, or the account's share of it, has no connection left.
[[nodiscard]] bool is_crowded_out(unsigned native);

// Another host of the list may do better: this server takes no writes. Nothing was done.
[[nodiscard]] bool is_wrong_host(unsigned native, std::string_view text);
[[nodiscard]] inline bool is_wrong_host(const ServerWords& words) {
  return is_wrong_host(words.native, words.text);
}

// A Galera node that lost the majority under a commit: what became of it is for another host to tell.
[[nodiscard]] bool is_cut_off(const ServerWords& words);

// The connection itself failed, and not what was asked over it.
[[nodiscard]] bool is_client_side(unsigned native);

// The account's password, or its absence, was refused.
[[nodiscard]] inline bool is_password_refused(unsigned native) {
  return native == k_access_denied || native == k_access_denied_no_password;
}

// What the server meant, where the set-up statement made it say it in a roundabout way.
[[nodiscard]] ServerWords plain_words(ServerWords words);

// "cannot acquire lock "k" on mysql://host/db: <words>; <what to do>". `where` holds no password.
[[nodiscard]] Error make_error(std::string_view attempt, std::string_view where, const ServerWords& words,
                               Phase phase);

}  // namespace dblock::store::mariadb
