#include "store/mariadb/session/client_library.hpp"

#include <array>
#include <cstdlib>
#include <string>

namespace dblock::store::mariadb {
namespace {

// All variables that are read on the way to the server, except
// - those that log_in() overrides with parameters: MYSQL_PWD, MYSQL_TCP_PORT, MYSQL_UNIX_PORT,
//   MARIADB_UNIX_PORT, USER, LOGNAME; and MYSQL_HOME, MARIADB_HOME, used only for the library's option files;
// - SSL_CERT_FILE and SSL_CERT_DIR: the usual way to say where a system has its authorities. tls-ca overrides
//   them, and a server without the right authority is refused;
// - KRB5CCNAME, KRB5_CONFIG: a Kerberos ticket can be passed in no other way;
// - LD_*, MALLOC_*, GLIBC_TUNABLES, OPENSSL_ia32cap: they take effect before main(), or decide how code runs,
//   not which code;
// - TZ, SQLITE_TMPDIR, TMPDIR: they decide nothing. dblock reads no local time, and SQLite uses those
//   directories only to sort long lists, in a file without a name.
constexpr std::array k_forgotten{
    // libmariadb: plugins to load, their directory, and a switch that turns certificate checks off.
    "LIBMYSQL_PLUGINS", "MARIADB_PLUGIN_DIR", "MARIADB_TLS_DISABLE_PEER_VERIFICATION",
    // OpenSSL: code to load, and a file for all sessions' keys. The system's openssl.cnf stays in force.
    "OPENSSL_CONF", "OPENSSL_CONF_INCLUDE", "OPENSSL_MODULES", "OPENSSL_ENGINES", "SSLKEYLOGFILE",
    // The resolver (resolv.conf(5), host.conf(5), hostname(7)): the host that a name means.
    "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF", "RESOLV_MULTI", "RESOLV_REORDER",
    "RESOLV_ADD_TRIM_DOMAINS", "RESOLV_OVERRIDE_TRIM_DOMAINS"};

}  // namespace

void forget_environment() {
  for (const char* const name : k_forgotten) ::unsetenv(name);
}

std::string client_library_version() {
  return api().mysql_get_client_info();
}

std::string tls_library() {
  const char* name = nullptr;
  const bool known = api().mariadb_get_infov(nullptr, MARIADB_TLS_LIBRARY, static_cast<void*>(&name)) == 0 &&
                     name != nullptr;
  if (known && *name != '\0') return name;
  // Before the first connection the client library does not know it yet, so ask OpenSSL itself.
  using OpenSslVersion = const char*(int);
  auto* const ask = reinterpret_cast<OpenSslVersion*>(symbol_of_library("OpenSSL_version"));
  return ask != nullptr ? ask(0) : "";
}

}  // namespace dblock::store::mariadb
