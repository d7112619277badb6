// Opens a session on one host: sets timeouts and TLS, and allows only safe ways to log in.
//
// TLS: if the server offers no TLS, the client library silently continues in plaintext,
// unless it was asked to check the certificate. login.cpp says how each mode deals with that.
#pragma once

#include <chrono>
#include <expected>
#include <memory>

#include "store/config/settings.hpp"
#include "store/mariadb/session/client_library.hpp"
#include "store/mariadb/session/errors.hpp"

namespace dblock::store::mariadb {

struct CloseHandle {
  void operator()(MYSQL* handle) const noexcept { api().mysql_close(handle); }
};
using Handle = std::unique_ptr<MYSQL, CloseHandle>;

struct FreeResult {
  void operator()(MYSQL_RES* result) const noexcept { api().mysql_free_result(result); }
};
using ResultSet = std::unique_ptr<MYSQL_RES, FreeResult>;

// True where log_in() uses the Unix socket.
[[nodiscard]] bool is_local_socket(const HostPort* host);

// The error of the last call on `handle`.
[[nodiscard]] ServerError last_error(MYSQL* handle);

// Logs in to `host`, or to the Unix socket if `host` is null. Blocks for at most the connect timeout (plus
// name look-ups), and as long again for the handshake. REQUIRES: client_library() has a value.
[[nodiscard]] std::expected<Handle, ServerError> log_in(const MariadbSettings& settings, const HostPort* host,
                                                        std::chrono::seconds network_timeout);

}  // namespace dblock::store::mariadb
