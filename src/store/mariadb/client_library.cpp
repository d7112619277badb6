#include "store/mariadb/client_library.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string>

#include "base/text.hpp"
#include "store/mariadb/factory.hpp"

namespace dblock::store::mariadb {
namespace {

// All that is read on the way to the server, but for
// - what log_in() gives by parameters: MYSQL_PWD, MYSQL_TCP_PORT, MYSQL_UNIX_PORT, MARIADB_UNIX_PORT, USER,
//   LOGNAME; and MYSQL_HOME, MARIADB_HOME, which only the library's own option files need;
// - SSL_CERT_FILE and SSL_CERT_DIR: the usual way to say where a system has its authorities. tls-ca has the
//   last word, and without the right authority a server is refused;
// - KRB5CCNAME, KRB5_CONFIG: a Kerberos ticket has no other way in;
// - LD_*, MALLOC_*, GLIBC_TUNABLES, OPENSSL_ia32cap: obeyed before main(), and how code runs, not which;
// - TZ, SQLITE_TMPDIR, TMPDIR: they decide nothing. No local time is read, and SQLite puts no more there
//   than a long list while it sorts it, in a file without a name.
constexpr std::array k_forgotten{
    // libmariadb: plugins to load, where they are, and no check of certificates.
    "LIBMYSQL_PLUGINS", "MARIADB_PLUGIN_DIR", "MARIADB_TLS_DISABLE_PEER_VERIFICATION",
    // OpenSSL: code to load, and a file for the keys of all sessions. The system's openssl.cnf stays in
    // force.
    "OPENSSL_CONF", "OPENSSL_CONF_INCLUDE", "OPENSSL_MODULES", "OPENSSL_ENGINES", "SSLKEYLOGFILE",
    // The resolver (resolv.conf(5), host.conf(5), hostname(7)): which host a name means.
    "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF", "RESOLV_MULTI", "RESOLV_REORDER",
    "RESOLV_ADD_TRIM_DOMAINS", "RESOLV_OVERRIDE_TRIM_DOMAINS"};

std::unexpected<Error> cannot_load(const std::string& file) {
  const char* const words = ::dlerror();
  return fail(Errc::config, "cannot load MariaDB's client library " + escape_untrusted(file) + ": " +
                                escape_untrusted(words == nullptr ? "no reason given" : words) +
                                "; install it (Debian: package libmariadb3), or use --local where one host "
                                "is all that the lock has to guard");
}

template <typename Function>
bool look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

void* s_library = nullptr;  // written once, by client_library()

// Never unloaded: OpenSSL has left handlers behind that run when the process ends.
Result<ClientLibrary> load(const char* file) {
  // NOW: a library that does not fit its OpenSSL is refused here, not by the dynamic linker's exit between
  // two statements. It costs nothing, since distributions link these libraries to be bound at once anyway.
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return cannot_load(file);
  s_library = library;
  ClientLibrary api;
#define DBLOCK_LOOK_UP(function) \
  if (!look_up(library, #function, api.function)) return cannot_load(file);
  DBLOCK_CLIENT_FUNCTIONS(DBLOCK_LOOK_UP)
#undef DBLOCK_LOOK_UP
  return api;
}

}  // namespace

void forget_environment() {
  for (const char* const name : k_forgotten) ::unsetenv(name);
}

const Result<ClientLibrary>& client_library() {
  static const Result<ClientLibrary> library = load(DBLOCK_CLIENT_LIBRARY);
  return library;
}

void* symbol_of_library(const char* name) {
  return ::dlsym(s_library, name);
}

std::string client_library_version() {
  return api().mysql_get_client_info();
}

std::string tls_library() {
  const char* name = nullptr;
  const bool known = api().mariadb_get_infov(nullptr, MARIADB_TLS_LIBRARY, static_cast<void*>(&name)) == 0 &&
                     name != nullptr;
  if (known && *name != '\0') return name;
  // Before the first connection only OpenSSL itself knows.
  using OpenSslVersion = const char*(int);
  auto* const ask = reinterpret_cast<OpenSslVersion*>(symbol_of_library("OpenSSL_version"));
  return ask != nullptr ? ask(0) : "";
}

Result<std::string> client_library_in_use() {
  if (const auto& library = client_library(); !library) return std::unexpected(library.error());
  const std::string tls = tls_library();
  return client_library_version() + (tls.empty() ? " without TLS" : " with " + tls);
}

}  // namespace dblock::store::mariadb
