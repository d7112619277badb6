// MariaDB's client library: a part of this program (client_linked.cpp), or a shared library of the system
// that the first connection loads (client_loaded.cpp). The build option DBLOCK_SELF_CONTAINED decides.
#pragma once

#include <mysql.h>

#include <string>

#include "base/error.hpp"

namespace dblock::store::mariadb {

// The functions that dblock calls. Declaration and definition both use this list, so they cannot differ.
// `mysql_server_init` is the function behind the header's macro mysql_library_init.
#define DBLOCK_CLIENT_FUNCTIONS(X) \
  X(mariadb_connection)            \
  X(mariadb_get_infov)             \
  X(mysql_affected_rows)           \
  X(mysql_close)                   \
  X(mysql_errno)                   \
  X(mysql_error)                   \
  X(mysql_fetch_fields)            \
  X(mysql_fetch_lengths)           \
  X(mysql_fetch_row)               \
  X(mysql_free_result)             \
  X(mysql_get_client_info)         \
  X(mysql_get_socket)              \
  X(mysql_get_ssl_cipher)          \
  X(mysql_init)                    \
  X(mysql_insert_id)               \
  X(mysql_next_result)             \
  X(mysql_num_fields)              \
  X(mysql_optionsv)                \
  X(mysql_read_query_result)       \
  X(mysql_real_connect)            \
  X(mysql_real_query)              \
  X(mysql_send_query)              \
  X(mysql_server_init)             \
  X(mysql_session_track_get_first) \
  X(mysql_session_track_get_next)  \
  X(mysql_use_result)

struct ClientLibrary {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared cannot stand in parentheses.
#define DBLOCK_DECLARE(function) decltype(&::function) function = nullptr;
  DBLOCK_CLIENT_FUNCTIONS(DBLOCK_DECLARE)
#undef DBLOCK_DECLARE
};

// Removes from this process's environment the variables that steer libmariadb, OpenSSL and the resolver, so
// that cron and a shell reach the same server and run the same code. The job, hooks and keepers still get the
// whole environment, because they are forked earlier. Call before threads exist and before client_library().
void forget_environment();

// The library for which dblock was built. Where it is a shared library, the first call loads it; its failure
// is final. Thread-safe.
[[nodiscard]] const Result<ClientLibrary>& client_library();

// The library's functions: api().mysql_errno(…). REQUIRES: client_library() has a value, which is true for
// everyone that has a MYSQL handle.
[[nodiscard]] inline const ClientLibrary& api() {
  return *client_library();
}

// Whether the server is MariaDB, by what it says of itself. REQUIRES: a session that is logged in.
[[nodiscard]] inline bool is_mariadb(MYSQL* handle) {
  return api().mariadb_connection(handle) != 0;
}

// A function of the library's OpenSSL that certificate_*.cpp, login.cpp or tls_library() calls; null if
// missing. REQUIRES: as api().
[[nodiscard]] void* symbol_of_library(const char* name);

// "3.4.9" and "OpenSSL 3.5.7 9 Jun 2026": the versions in use, not those at build time. REQUIRES: as api().
[[nodiscard]] std::string client_library_version();
[[nodiscard]] std::string tls_library();

}  // namespace dblock::store::mariadb
