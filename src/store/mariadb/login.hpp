// Opening a session on one host: timeouts, TLS, and which ways to log in are allowed.
//
// TLS (HAZARDS 24, 27): the client library quietly goes on in plaintext when the server offers no TLS, unless
// a certificate check was asked for. What we do about it, and that it works, is said at each mode in
// login.cpp.
#pragma once

#include <chrono>
#include <expected>
#include <memory>

#include "store/config/settings.hpp"
#include "store/mariadb/client_library.hpp"
#include "store/mariadb/errors.hpp"

namespace dblock::store::mariadb {

struct CloseHandle {
  void operator()(MYSQL* handle) const noexcept { api().mysql_close(handle); }
};
using Handle = std::unique_ptr<MYSQL, CloseHandle>;

struct FreeResult {
  void operator()(MYSQL_RES* result) const noexcept { api().mysql_free_result(result); }
};
using ResultSet = std::unique_ptr<MYSQL_RES, FreeResult>;

// Why the last call on `handle` failed.
[[nodiscard]] ServerWords last_words(MYSQL* handle);

// Blocks for at most the connect timeout (name look-ups aside) and as much again for the handshake. `host` is
// null for the Unix socket. REQUIRES: client_library() has a value.
[[nodiscard]] std::expected<Handle, ServerWords> log_in(const MariadbSettings& settings, const HostPort* host,
                                                        std::chrono::seconds network_timeout);

}  // namespace dblock::store::mariadb
