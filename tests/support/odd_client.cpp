// Preloaded into dblock: MariaDB's client library is an odd one, in the way that DBLOCK_TEST_CLIENT names.
//
// out-of-memory: it makes no handle. unencrypted: it names no cipher for a connection with TLS. All others
// say that they are of the version DBLOCK_TEST_CLIENT_VERSION (3.4.1). Versions 3.4 make exceptions for
// certificates, so dblock checks these: of-gnutls: it is built with another TLS library. first-of-its-kind:
// it takes no check of certificates. forgetful: it takes the check and makes none. of-another-shape: it shows
// the check no TLS session that dblock knows. uncertified: it has got no certificate from the server.
#include <dlfcn.h>
#include <mysql.h>

#include <cstdarg>
#include <cstdlib>
#include <string_view>

namespace {

using Check = int(void* tls, unsigned plan);
Check* s_check = nullptr;

// What the library passes to a check.
struct Tls {
  void* data;
  void* connection;
  void* ssl;
};

std::string_view way() {
  const char* const told = std::getenv("DBLOCK_TEST_CLIENT");
  return told == nullptr ? "" : told;
}

// The name of its version differs between processors and between releases of the C library.
void* real_symbol(void* library, const char* name) {
  using Lookup = void*(void*, const char*);
  static auto* const lookup = [] {
    for (const char* const version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
      if (void* const found = ::dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Lookup*>(found);
    }
    std::abort();
  }();
  return lookup(library, name);
}

decltype(&::mysql_optionsv) s_optionsv = nullptr;
decltype(&::mysql_real_connect) s_connect = nullptr;

MYSQL* no_handle(MYSQL* /*handle*/) {
  return nullptr;
}
const char* no_cipher(MYSQL* /*handle*/) {
  return nullptr;
}
const char* version() {
  const char* const told = std::getenv("DBLOCK_TEST_CLIENT_VERSION");
  return told == nullptr ? "3.4.1" : told;
}
my_bool names_gnutls(MYSQL* /*handle*/, mariadb_value /*value*/, void* name, ...) {
  *static_cast<const char**>(name) = "GnuTLS 3.8.9";
  return 0;
}
void* no_certificate(const void* /*ssl*/) {
  return nullptr;
}

int optionsv(MYSQL* handle, mysql_option option, ...) {
  constexpr int k_check = MARIADB_OPT_RESTRICTED_AUTH + 5;  // MARIADB_OPT_TLS_VERIFICATION_CALLBACK
  va_list more;
  va_start(more, option);
  const void* const first = va_arg(more, const void*);
  const void* const second = va_arg(more, const void*);
  va_end(more);
  if (option != k_check) return s_optionsv(handle, option, first, second);
  s_check = reinterpret_cast<Check*>(const_cast<void*>(first));
  return way() == "first-of-its-kind" ? 1 : 0;
}

MYSQL* connect(MYSQL* handle, const char* host, const char* user, const char* password, const char* database,
               unsigned port, const char* socket, unsigned long flags) {
  MYSQL* const connected = s_connect(handle, host, user, password, database, port, socket, flags);
  Tls tls{nullptr, way() == "of-another-shape" ? nullptr : handle->net.pvio, &tls};
  if (connected != nullptr && s_check != nullptr && way() != "forgetful") s_check(&tls, 0);
  return connected;
}

}  // namespace

// What dblock looks for in the library that it has loaded.
extern "C" void* dlsym(void* library, const char* symbol) noexcept {
  const std::string_view name = symbol;
  const auto ours = [](auto* function) { return reinterpret_cast<void*>(function); };
  void* const found = real_symbol(library, symbol);
  if (way().empty() || found == nullptr) return found;
  if (way() == "out-of-memory") return name == "mysql_init" ? ours(&no_handle) : found;
  if (way() == "unencrypted") return name == "mysql_get_ssl_cipher" ? ours(&no_cipher) : found;
  if (name == "mysql_get_client_info") return ours(&version);
  if (name == "mariadb_get_infov" && way() == "of-gnutls") return ours(&names_gnutls);
  if (name == "SSL_get1_peer_certificate" && way() == "uncertified") return ours(&no_certificate);
  if (name == "mysql_optionsv") {
    s_optionsv = reinterpret_cast<decltype(s_optionsv)>(found);
    return ours(&optionsv);
  }
  if (name == "mysql_real_connect") {
    s_connect = reinterpret_cast<decltype(s_connect)>(found);
    return ours(&connect);
  }
  return found;
}
