#include "store/mariadb/session/login.hpp"

#include <nss.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "store/mariadb/session/certificate_check.hpp"
#include "store/mariadb/session/certificate_names.hpp"
#include "store/mariadb/session/result.hpp"

// The plugin "dialog" calls this where it would otherwise put a question of the server's to stdout and read
// the answer from stdin, which is the job's. It finds the function by this name in the program.
extern "C" [[gnu::used, gnu::visibility("default")]] char* mysql_authentication_dialog_ask(
    MYSQL* /*handle*/, int /*type*/, const char* /*question*/, char* answer, int size) {
  if (size > 0) *answer = '\0';
  return answer;
}

namespace dblock::store::mariadb {
namespace {

// Ways to log in that never send the password: challenge and response, signatures.
constexpr const char* k_blind_plugins =
    "mysql_native_password,client_ed25519,auth_gssapi_client,auth_socket,unix_socket,parsec";
// Also allows ways in which the server may ask for the password itself; safe where no attacker can listen.
constexpr const char* k_all_plugins =
    "mysql_native_password,client_ed25519,auth_gssapi_client,auth_socket,unix_socket,parsec,"
    "caching_sha2_password,sha256_password";
// Also hands the password over as it is, to any server that asks (accounts of PAM, LDAP, RDS IAM, Entra ID).
// Only for a server that has proved to be the right one.
constexpr const char* k_trusting_plugins =
    "mysql_native_password,client_ed25519,auth_gssapi_client,auth_socket,unix_socket,parsec,"
    "caching_sha2_password,sha256_password,mysql_clear_password,dialog";

enum class Encryption {
  plain,  // without TLS
  tls_if_offered,
  tls_only,
};

struct Plan {
  Encryption encryption = Encryption::plain;
  bool check_certificate = false;  // its chain, against settings.tls_ca or the system's authorities
  bool check_name = false;
  const char* plugins = k_blind_plugins;
};

Plan plan_for(TlsMode mode, bool local_socket) {
  switch (mode) {
    case TlsMode::off:
      break;
    case TlsMode::prefer:
      if (!local_socket) return {Encryption::tls_if_offered, false, false, k_blind_plugins};
      break;
    case TlsMode::require:
      return {Encryption::tls_only, false, false, local_socket ? k_trusting_plugins : k_all_plugins};
    case TlsMode::verify_ca:
      return {Encryption::tls_only, true, false, k_trusting_plugins};
    case TlsMode::verify_full:
      return {Encryption::tls_only, true, true, k_trusting_plugins};
  }
  // A Unix socket stays on this host: no attacker can listen, and TLS would only cost time.
  return {Encryption::plain, false, false, local_socket ? k_trusting_plugins : k_blind_plugins};
}

void set_flag(MYSQL* handle, mysql_option option, bool on) {
  const my_bool value = on ? 1 : 0;
  api().mysql_optionsv(handle, option, &value);
}

void set_text(MYSQL* handle, mysql_option option, const std::string& text) {
  if (!text.empty()) api().mysql_optionsv(handle, option, text.c_str());
}

void set_tls(MYSQL* handle, const MariadbSettings& settings, const Plan& plan) {
  // Set without TLS too: some builds of the library demand TLS unless told not to check the name.
  set_flag(handle, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, plan.check_name);
  if (plan.encryption == Encryption::plain) return;
  set_flag(handle, MYSQL_OPT_SSL_ENFORCE, true);  // only tries TLS: by itself it enforces nothing
  set_text(handle, MYSQL_OPT_SSL_CERT, settings.tls_cert);
  set_text(handle, MYSQL_OPT_SSL_KEY, settings.tls_key);
  // A certificate authority alone makes the library check the chain, but not the name.
  if (plan.check_certificate) set_text(handle, MYSQL_OPT_SSL_CA, settings.tls_ca);
  // The library never compares an empty fingerprint. But if one is set, it refuses a server without TLS
  // before it sends the password. No other option does that without also checking the name.
  if (plan.encryption == Encryption::tls_only) api().mysql_optionsv(handle, MARIADB_OPT_TLS_PEER_FP, "");
}

void set_timeouts(MYSQL* handle, const MariadbSettings& settings, std::chrono::seconds network_timeout) {
  using std::chrono::seconds;
  const auto connect = std::max(seconds{1}, std::chrono::ceil<seconds>(settings.connect_timeout));
  const auto connect_seconds = static_cast<unsigned>(connect.count());
  const auto network_seconds = static_cast<unsigned>(std::max(seconds{1}, network_timeout).count());
  api().mysql_optionsv(handle, MYSQL_OPT_CONNECT_TIMEOUT, &connect_seconds);
  api().mysql_optionsv(handle, MYSQL_OPT_READ_TIMEOUT, &network_seconds);
  api().mysql_optionsv(handle, MYSQL_OPT_WRITE_TIMEOUT, &network_seconds);
}

void set_common(MYSQL* handle, const Plan& plan, const HostPort* host) {
  const std::size_t largest_packet = k_largest_packet;
  api().mysql_optionsv(handle, MYSQL_OPT_MAX_ALLOWED_PACKET, &largest_packet);
  const unsigned no_local_infile = 0;
  api().mysql_optionsv(handle, MYSQL_OPT_LOCAL_INFILE, &no_local_infile);
  set_flag(handle, MYSQL_OPT_RECONNECT, false);
  api().mysql_optionsv(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
  api().mysql_optionsv(handle, MARIADB_OPT_RESTRICTED_AUTH, plan.plugins);
  api().mysql_optionsv(handle, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "dblock");
  const unsigned protocol = is_local_socket(host) ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
  api().mysql_optionsv(handle, MYSQL_OPT_PROTOCOL, &protocol);
}

bool may_use_tls(const MariadbSettings& settings) {
  const auto uses_tls = [&](const HostPort* host) {
    return plan_for(settings.tls, is_local_socket(host)).encryption != Encryption::plain;
  };
  if (settings.hosts.empty()) return uses_tls(nullptr);
  return std::ranges::any_of(settings.hosts, [&](const HostPort& host) { return uses_tls(&host); });
}

// Keeps OpenSSL from reading openssl.cnf and its own error texts, which is half of all instructions of a run.
// Both matter for TLS only.
void spare_openssl_its_texts() {
  constexpr std::uint64_t k_no_texts_no_configuration = 0x01 | 0x80;  // openssl/crypto.h
  using InitCrypto = int(std::uint64_t, const void*);
  auto* const init = reinterpret_cast<InitCrypto*>(symbol_of_library("OPENSSL_init_crypto"));
  if (init != nullptr) init(k_no_texts_no_configuration, nullptr);
}

// Sets the library up, once; must happen before a second thread starts. The set-up looks up the port of the
// service "mysql". /etc/nsswitch.conf on Debian first names a database that almost no host has: ninety system
// calls to find its module. So only /etc/services is asked.
bool set_up_library(const MariadbSettings& settings) {
  ::__nss_configure_lookup("services", "files");
  if (!may_use_tls(settings)) spare_openssl_its_texts();
  return api().mysql_server_init(0, nullptr, nullptr) == 0;
}

// REQUIRES: one process connects with one MariadbSettings, or at least uses TLS in all of them or in none.
bool library_is_ready(const MariadbSettings& settings) {
  static const bool ready = set_up_library(settings);
  return ready;
}

std::string name_of(const HostPort* host) {
  return host != nullptr ? host->host : "localhost";
}

// The user to log in as; by default the effective user. For an empty name the library would read USER and
// LOGNAME.
std::string user_of(const MariadbSettings& settings) {
  if (!settings.user.empty()) return settings.user;
  const passwd* const user = ::getpwuid(::geteuid());
  return user != nullptr ? user->pw_name : std::to_string(::geteuid());
}

// Passes every parameter explicitly. The library takes missing ones from environment variables (MYSQL_PWD,
// MYSQL_TCP_PORT, MYSQL_UNIX_PORT), which differ between cron and a shell, and from /etc/services.
// forget_environment() removes the variables that have no parameter here.
bool connect(MYSQL* handle, const MariadbSettings& settings, const HostPort* host) {
  const bool by_socket = is_local_socket(host);
  const char* const socket = settings.socket.empty() ? MARIADB_UNIX_ADDR : settings.socket.c_str();
  const unsigned port = host != nullptr && host->port != 0 ? host->port : MARIADB_PORT;
  return api().mysql_real_connect(handle, name_of(host).c_str(), user_of(settings).c_str(),
                                  settings.password ? settings.password->c_str() : "",
                                  settings.database.c_str(), by_socket ? 0 : port,
                                  by_socket ? socket : nullptr, CLIENT_FOUND_ROWS) != nullptr;
}

// The server asked for a plugin that the plan forbids: what to do about it. (The library does not tell
// which.)
std::string words_of_plugin(const Plan& plan) {
  return std::string_view(plan.plugins) == k_trusting_plugins
             ? "the server asks for a way to log in that dblock never uses; give the account "
               "caching_sha2_password, ed25519 or mysql_native_password"
             : "the server asks for a way to log in that would expose the password on this connection; use "
               "tls=verify-full with tls-ca, or the Unix socket";
}

// A path at which no server can ever listen.
bool names_no_socket(const std::string& path) {
  struct stat seen {};
  return !path.empty() && ::stat(path.c_str(), &seen) == 0 && !S_ISSOCK(seen.st_mode);
}

// Why the login failed.
ServerError refusal_of(MYSQL* handle, const MariadbSettings& settings, const Plan& plan) {
  ServerError error = refusal_before_tls(last_error(handle));
  if (error.native == k_plugin_not_allowed) error.text = words_of_plugin(plan);
  if (is_lasting_tls_failure(error)) error.lasting = true;
  if (error.native == k_socket_failed && names_no_socket(settings.socket))
    return {0, settings.socket + " is no socket; name the server's (`SELECT @@socket` tells it)", true};
  return error;
}

// connect() with TLS; also refuses a server without the certificate that the plan demands.
std::expected<void, ServerError> connect_with_tls(MYSQL* handle, const MariadbSettings& settings,
                                                  const HostPort* host, const Plan& plan) {
  CertificateCheck check(
      {plan.check_certificate, plan.check_name ? std::optional(name_of(host)) : std::nullopt});
  if (!check.install(handle)) return std::unexpected(ServerError{k_tls_failed, check.refusal(), true});
  const bool connected = connect(handle, settings, host);
  if (!connected && !check.was_asked()) {
    ServerError error = refusal_of(handle, settings, plan);
    if (plan.check_name && is_name_refused(error))
      error.text = refusal_of_name(name_of(host), names_shown_by(settings, host));
    return std::unexpected(std::move(error));
  }
  if (!check.refusal().empty()) return std::unexpected(ServerError{k_tls_failed, check.refusal(), true});
  if (!connected) return std::unexpected(refusal_of(handle, settings, plan));
  if (api().mysql_get_ssl_cipher(handle) != nullptr) return {};
  return std::unexpected(ServerError{k_tls_failed, "the connection is not encrypted", true});
}

std::expected<Handle, ServerError> log_in_as_planned(const MariadbSettings& settings, const HostPort* host,
                                                     std::chrono::seconds network_timeout, const Plan& plan) {
  Handle handle(library_is_ready(settings) ? api().mysql_init(nullptr) : nullptr);
  if (!handle) return std::unexpected(ServerError{2008, "out of memory"});
  set_common(handle.get(), plan, host);
  set_timeouts(handle.get(), settings, network_timeout);
  set_tls(handle.get(), settings, plan);
  if (plan.encryption == Encryption::tls_only) {
    const auto connected = connect_with_tls(handle.get(), settings, host, plan);
    if (!connected) return std::unexpected(connected.error());
  } else if (!connect(handle.get(), settings, host)) {
    return std::unexpected(refusal_of(handle.get(), settings, plan));
  }
  return handle;
}

}  // namespace

bool is_local_socket(const HostPort* host) {
  return host == nullptr || (host->host == "localhost" && host->port == 0);
}

ServerError last_error(MYSQL* handle) {
  return {api().mysql_errno(handle), api().mysql_error(handle)};
}

std::expected<Handle, ServerError> log_in(const MariadbSettings& settings, const HostPort* host,
                                          std::chrono::seconds network_timeout) {
  Plan plan = plan_for(settings.tls, is_local_socket(host));
  const bool has_secret = settings.password && !settings.password->empty();
  if (!has_secret && std::string_view(plan.plugins) == k_blind_plugins) plan.plugins = k_all_plugins;
  auto handle = log_in_as_planned(settings, host, network_timeout, plan);
  if (handle || plan.encryption != Encryption::tls_if_offered ||
      handle.error().native != k_plugin_not_allowed)
    return handle;
  // MySQL 8 and later may ask for the password itself (caching_sha2_password). Over TLS, dblock sends it, as
  // mysql(1) does. Without TLS the password would be encrypted with a key that any attacker can offer.
  const Plan with_tls{Encryption::tls_only, false, false, k_all_plugins};
  auto second = log_in_as_planned(settings, host, network_timeout, with_tls);
  if (!second && second.error().native == k_tls_failed) return handle;
  return second;
}

}  // namespace dblock::store::mariadb
