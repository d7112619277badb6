// The one place that turns the server's and the client library's error numbers into dblock's errors.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

namespace dblock::store::mariadb {

// The step that failed. It decides what a lost reply means.
enum class Phase {
  connect,  // opening a session: nothing was changed
  read,     // a statement that changes nothing
  write,    // a statement that changes rows: a lost reply leaves its outcome unknown
  commit,   // COMMIT: as write, but never sent twice, because a second COMMIT would have nothing to commit
};

// An error number and text, of the server or the client library. Number 0: dblock's own text.
struct ServerError {
  unsigned native = 0;
  std::string text;
  // Of a connection: the settings, or what this host shows, must change before a later try can succeed.
  bool lasting = false;
};

inline constexpr unsigned k_duplicate_key = 1062;
inline constexpr unsigned k_null_refused = 1048;
inline constexpr unsigned k_table_exists = 1050;
inline constexpr unsigned k_unknown_variable = 1193;
inline constexpr unsigned k_no_such_table = 1146;
inline constexpr unsigned k_no_such_function = 1305;
// Of a statement that names an index: there is a view in the place of the table, or the index was dropped.
inline constexpr unsigned k_no_such_key = 1176;
// Of a function of a plugin. dblock calls only the one that tells whether the server is a member of its
// replication group.
inline constexpr unsigned k_function_refuses = 1123;
inline constexpr unsigned k_lock_wait_timed_out = 1205;
inline constexpr unsigned k_deadlock = 1213;
// A member of a replication group undid a transaction, or left the group and does not know of it.
inline constexpr unsigned k_rolled_back_at_commit = 3101;
inline constexpr unsigned k_table_denied = 1142;
inline constexpr unsigned k_join_too_big = 1104;
inline constexpr unsigned k_access_denied = 1045;
inline constexpr unsigned k_access_denied_no_password = 1698;
inline constexpr unsigned k_password_expired = 1862;
inline constexpr unsigned k_socket_failed = 2002;       // CR_CONNECTION_ERROR
inline constexpr unsigned k_connection_lost = 2013;     // CR_SERVER_LOST
inline constexpr unsigned k_plugin_not_allowed = 5010;  // CR_PLUGIN_NOT_ALLOWED
inline constexpr unsigned k_tls_failed = 2026;          // CR_SSL_CONNECTION_ERROR

// The server rolled back, and a second try may succeed: deadlock, lock wait timeout, or a row changed since
// it was read. On Galera, 1213 also means that certification failed.
[[nodiscard]] bool is_transient(unsigned native);

// A row stayed locked for as long as the statement may wait; with NOWAIT that is no time at all.
[[nodiscard]] bool is_lock_wait(unsigned native);

// The session is intact after this error: the server only refused the statement.
[[nodiscard]] bool keeps_connection(unsigned native);

// This server takes no writes, so try another host of the list. Nothing was done.
[[nodiscard]] bool is_wrong_host(unsigned native, std::string_view text);
[[nodiscard]] inline bool is_wrong_host(const ServerError& error) {
  return is_wrong_host(error.native, error.text);
}

// A Galera node lost the majority during a commit. Another host must tell whether the commit succeeded.
[[nodiscard]] bool is_cut_off(const ServerError& error);

// The connection failed, not the statement.
[[nodiscard]] bool is_client_side(unsigned native);

// True for the client library's words about TLS that no later try changes: no TLS on the server, certificates
// and keys that are refused or do not fit. What remains, such as a connection that broke, may pass.
[[nodiscard]] bool is_lasting_tls_failure(const ServerError& error);

// What a server said before TLS had begun, as refusals of a host or of a connection too many are: the library
// gives such a text a number and words of its own. Other errors are left alone. `lasting`, since it may be
// forged: it does not end what already had a session.
[[nodiscard]] ServerError refusal_before_tls(ServerError error);

// The library's own check of the certificate found only the name wrong.
[[nodiscard]] inline bool is_name_refused(const ServerError& error) {
  return error.native == k_tls_failed &&
         error.text.find("Validation of SSL server certificate failed") != std::string::npos;
}

// The server refused the password, or its absence, or wants another one.
[[nodiscard]] inline bool is_password_refused(unsigned native) {
  return native == k_access_denied || native == k_access_denied_no_password || native == k_password_expired;
}

// Translates the errors by which the set-up statement, and a statement that changes a lock's row
// ({next_version} in sql/verbs/mariadb/terms.sql), report a read-only server or a server that is not a member
// of its replication group; leaves other errors alone.
[[nodiscard]] ServerError wrong_host_error(ServerError error);

// Makes the error "cannot acquire lock "k" on mysql://host/db: <words>; <what to do>". `where` must hold no
// password.
[[nodiscard]] Error make_error(std::string_view attempt, std::string_view where, const ServerError& error,
                               Phase phase);

}  // namespace dblock::store::mariadb
