// The check of the server's certificate, done by us where the client library's own is not enough.
//
// Connector/C 3.3 checks as it is told. From 3.4 on it makes exceptions: it never compares the name on
// 127.0.0.1, ::1 and Unix sockets, compares it elsewhere also where only the authority matters, and may take
// a login with a password for proof enough. So 3.4 is told to ask us instead, by a function that it calls
// between the TLS handshake and the login: what is refused there has seen neither user nor password.
//
// THREADING: a check belongs to the thread that opens the session, and to one session.
#pragma once

#include <optional>
#include <string>

#include "store/mariadb/client_library.hpp"

namespace dblock::store::mariadb {

// What a server's certificate has to prove. Without `chain` any certificate is good.
struct CertificateDemand {
  bool chain = false;               // valid now, and signed by an authority that is trusted
  std::optional<std::string> name;  // issued for this host name or IP address
};

class CertificateCheck {
 public:
  explicit CertificateCheck(CertificateDemand demand);
  ~CertificateCheck();
  CertificateCheck(const CertificateCheck&) = delete;
  CertificateCheck& operator=(const CertificateCheck&) = delete;

  // To be called before mysql_real_connect(). False: the library has no such function, or a TLS library that
  // we cannot ask; refusal() says what to do, and no connection may be opened.
  [[nodiscard]] bool install(MYSQL* handle);
  // After the connection, or its failure: whether the handshake got as far as a certificate.
  [[nodiscard]] bool was_asked() const { return asked_; }

  // Why the server was refused; empty: it was not. A server that the library has logged in to without having
  // asked is refused as well.
  [[nodiscard]] std::string refusal() const;

  // For the library's call.
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
