#include "store/mariadb/session/certificate_check.hpp"

#include <sys/socket.h>

#include <charconv>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "store/mariadb/session/certificate_names.hpp"

namespace dblock::store::mariadb {
namespace {

// MARIADB_OPT_TLS_VERIFICATION_CALLBACK. The headers of 3.3 lack it, but the loaded library may be newer.
constexpr auto k_callback_option = static_cast<mysql_option>(MARIADB_OPT_RESTRICTED_AUTH + 5);

// The first members of MARIADB_TLS, which the library passes to the callback. Its header is not installed
// everywhere.
struct LibrarysTls {
  void* data;
  MARIADB_PVIO* connection;
  void* ssl;  // OpenSSL's SSL*
};

// Functions of the OpenSSL that the client library has loaded. Six declarations make its headers unnecessary.
struct OpenSsl {
  long (*verify_result)(const void*) = nullptr;
  void* (*certificate)(const void*) = nullptr;
  void (*free_certificate)(void*) = nullptr;
  int (*check_host)(void*, const char*, std::size_t, unsigned, char**) = nullptr;
  int (*check_address)(void*, const char*, unsigned) = nullptr;
  const char* (*words)(long) = nullptr;
};

template <typename Function>
bool find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(symbol_of_library(name));
  return function != nullptr;
}

std::optional<OpenSsl> load_openssl() {
  OpenSsl openssl;
  const bool complete = find(openssl.verify_result, "SSL_get_verify_result") &&
                        (find(openssl.certificate, "SSL_get1_peer_certificate") ||
                         find(openssl.certificate, "SSL_get_peer_certificate")) &&  // before version 3
                        find(openssl.free_certificate, "X509_free") &&
                        find(openssl.check_host, "X509_check_host") &&
                        find(openssl.check_address, "X509_check_ip_asc") &&
                        find(openssl.words, "X509_verify_cert_error_string");
  if (!complete || !tls_library().starts_with("OpenSSL")) return std::nullopt;
  return openssl;
}

const std::optional<OpenSsl>& openssl() {
  static const std::optional<OpenSsl> functions = load_openssl();
  return functions;
}

bool makes_exceptions(std::string_view version) {
  int major = 0;
  int minor = 0;
  const auto dot = version.find('.');
  if (dot == std::string_view::npos) return true;
  std::from_chars(version.data(), version.data() + dot, major);
  std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  return std::tuple(major, minor) >= std::tuple(3, 4);
}

// The library's own verdict from the handshake. If not 0, it goes on only if the password proves the server.
template <typename Net>
unsigned char& verify_status(Net& net) {
  if constexpr (requires { net.tls_verify_status; }) {
    return net.tls_verify_status;
  } else {
    return reinterpret_cast<unsigned char&>(net.unused_2);  // the same byte, before 3.4 gave it a name
  }
}
constexpr unsigned char k_refused = 32;  // MARIADB_TLS_VERIFY_UNKNOWN: the library makes no exception for it

thread_local CertificateCheck* t_check = nullptr;

int on_handshake(void* tls, unsigned /*the library's own plan*/) {
  return t_check != nullptr && t_check->accepts(tls) ? 0 : 1;
}

}  // namespace

std::string refusal_of_name(const std::string& wanted, const std::string& names) {
  return "the server's certificate is not for " + escape_untrusted(wanted) +
         (names.empty() ? "" : " but for " + names);
}

CertificateCheck::CertificateCheck(CertificateDemand demand) : demand_(std::move(demand)) {
  t_check = this;
}

CertificateCheck::~CertificateCheck() {
  t_check = nullptr;
}

bool CertificateCheck::install(MYSQL* handle) {
  handle_ = handle;
  const std::string version = client_library_version();
  left_to_library_ = !makes_exceptions(version);
  if (left_to_library_) return true;
  if (demand_.chain && !openssl()) {
    refusal_ = "MariaDB's client library " + escape_untrusted(version) + " uses " +
               escape_untrusted(tls_library()) +
               ", and dblock can check certificates only with OpenSSL; install a library built with it";
  } else if (api().mysql_optionsv(handle, k_callback_option, reinterpret_cast<void*>(&on_handshake)) != 0) {
    refusal_ = "MariaDB's client library " + escape_untrusted(version) +
               " does not let dblock check the certificate; install 3.4.2 or newer";
  }
  return refusal_.empty();
}

std::string CertificateCheck::refusal() const {
  if (!refusal_.empty() || left_to_library_ || asked_) return refusal_;
  return "MariaDB's client library did not let dblock check the certificate";
}

bool CertificateCheck::accepts(void* tls) {
  asked_ = true;
  refusal_ = why_not(tls);
  verify_status(handle_->net) = refusal_.empty() ? 0 : k_refused;
  // Whatever the library does with our answer, it can send nothing more to this server.
  if (!refusal_.empty()) ::shutdown(api().mysql_get_socket(handle_), SHUT_RDWR);
  return refusal_.empty();
}

std::string CertificateCheck::why_not(void* tls) const {
  if (!demand_.chain) return {};
  const auto* const seen = static_cast<const LibrarysTls*>(tls);
  if (seen == nullptr || seen->connection != handle_->net.pvio || seen->ssl == nullptr)
    return "the TLS session of MariaDB's client library cannot be read; install a version that dblock knows";
  struct Free {
    void operator()(void* certificate) const { openssl()->free_certificate(certificate); }
  };
  const std::unique_ptr<void, Free> certificate(openssl()->certificate(seen->ssl));
  if (!certificate) return "the server shows no certificate";
  const long found = openssl()->verify_result(seen->ssl);
  if (found != 0 || verify_status(handle_->net) != 0)
    return std::string("the server's certificate is not valid: ") + openssl()->words(found);
  if (!demand_.name) return {};
  const std::string& name = *demand_.name;
  const bool ours = openssl()->check_host(certificate.get(), name.data(), name.size(), 0, nullptr) == 1 ||
                    openssl()->check_address(certificate.get(), name.c_str(), 0) == 1;
  return ours ? "" : refusal_of_name(name, names_in(certificate.get()));
}

}  // namespace dblock::store::mariadb
