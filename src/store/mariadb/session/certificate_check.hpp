// Checks the server's certificate where the client library's own check is not enough.
//
// Connector/C 3.3 checks what its options ask for. From 3.4 on it makes exceptions: it never compares the
// name on 127.0.0.1, ::1 and Unix sockets, compares the name elsewhere even if only the authority matters,
// and may take a login with a password for sufficient proof. So dblock gives 3.4 a function of its own, which
// the library calls between the TLS handshake and the login. A server that is refused there has seen neither
// user nor password.
//
// THREADING: a check belongs to the thread that opens the session, and to one session.
#pragma once

#include <optional>
#include <string>

#include "store/mariadb/session/client_library.hpp"

namespace dblock::store::mariadb {

// What a server's certificate must prove. Without `chain` any certificate is accepted.
struct CertificateDemand {
  bool chain = false;               // the certificate is valid now, and a trusted authority signed it
  std::optional<std::string> name;  // the certificate is for this host name or IP address
};

// The sentence that refuses a certificate for other `names` (certificate_names.hpp).
[[nodiscard]] std::string refusal_of_name(const std::string& wanted, const std::string& names);

class CertificateCheck {
 public:
  explicit CertificateCheck(CertificateDemand demand);
  ~CertificateCheck();
  CertificateCheck(const CertificateCheck&) = delete;
  CertificateCheck& operator=(const CertificateCheck&) = delete;

  // Call before mysql_real_connect(). False if the library cannot call dblock back, or uses a TLS library
  // that dblock cannot query: then refusal() says what to do, and the caller must not open the connection.
  [[nodiscard]] bool install(MYSQL* handle);
  // After mysql_real_connect() returned: true if the handshake got as far as a certificate.
  [[nodiscard]] bool was_asked() const { return asked_; }

  // After mysql_real_connect() returned: why this check refuses the server; empty if it does not. Also
  // refuses a server to which the library logged in without asking this check.
  [[nodiscard]] std::string refusal() const;

  // The library calls this after the handshake. False ends the connection.
  [[nodiscard]] bool accepts(void* tls);

 private:
  [[nodiscard]] std::string why_not(void* tls) const;

  CertificateDemand demand_;
  MYSQL* handle_ = nullptr;
  bool left_to_library_ = false;
  bool asked_ = false;
  std::string refusal_;
};

}  // namespace dblock::store::mariadb
