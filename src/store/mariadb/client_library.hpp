// libmariadb, loaded by the first connection instead of with the program. A run on another store pays nothing
// for it and for the OpenSSL it brings along, and neither does the guardian, which is forked before and loads
// it only when it has to release a dead dblock's lock.
#pragma once

#include <mysql.h>

#include <string>

#include "base/error.hpp"

namespace dblock::store::mariadb {

// What dblock calls, under the library's own names: declaration and look-up cannot name different functions.
// `mysql_server_init` is what the header's macro mysql_library_init stands for.
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

// Takes out of this process's environment what libmariadb, OpenSSL and the resolver would go by, so that cron
// and a shell mean the same server and run the same code. The job, hooks and keepers inherit the whole
// environment: all of them are forked before. Call before threads exist, and before the library is loaded.
void forget_environment();

// The library this build was made for, loaded by the first call. Thread-safe; a failure is remembered.
[[nodiscard]] const Result<ClientLibrary>& client_library();

// api().mysql_errno(…). REQUIRES: client_library() has a value, as it has for whoever holds a handle.
[[nodiscard]] inline const ClientLibrary& api() {
  return *client_library();
}

// A function of the library's, or of those that it has brought along (OpenSSL). REQUIRES: as api().
[[nodiscard]] void* symbol_of_library(const char* name);

// "3.4.9" and "OpenSSL 3.5.7 9 Jun 2026": what is in use, not what this build was made with. REQUIRES: as
// api().
[[nodiscard]] std::string client_library_version();
[[nodiscard]] std::string tls_library();

}  // namespace dblock::store::mariadb
