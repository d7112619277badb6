// The names that a server's certificate has, for the message that refuses it. Decides nothing.
#pragma once

#include <string>

#include "store/config/settings.hpp"

namespace dblock::store::mariadb {

// The names in an OpenSSL X509*, escaped: "DNS:db1.example, IP Address:10.0.0.1"; empty if it has none.
[[nodiscard]] std::string names_in(void* certificate);

// The same of the certificate that the server on this host shows, for which a connection is opened that ends
// after the TLS handshake: the server hears neither user nor password. `host` as for log_in(). Takes two
// seconds at most, and a name look-up.
[[nodiscard]] std::string names_shown_by(const MariadbSettings& settings, const HostPort* host);

}  // namespace dblock::store::mariadb
