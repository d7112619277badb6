// Certificates for the servers of one case, good and bad ones.
#pragma once

#include <string>
#include <vector>

#include "support/config.hpp"

namespace dblock::test {

// Authorities: ca, and foreign, which has signed nothing. Certificates of servers: "good", for 127.0.0.1 and
// localhost; "expired", the same but for its time; "wrong-name", for another host; "self-signed", good but
// for that nobody else vouches for it.
class Certificates {
 public:
  Certificates();
  [[nodiscard]] std::string file(const std::string& name) const { return directory_.file(name); }
  [[nodiscard]] std::string authority() const { return file("ca.pem"); }
  // For a server that shows this certificate.
  [[nodiscard]] std::vector<std::string> server_options(const std::string& name) const;

 private:
  void openssl(std::vector<std::string> words) const;
  void self_signed(const std::string& name, const std::string& extensions) const;
  void issue(const std::string& name, const std::string& names, const std::string& first_day,
             const std::string& last_day) const;

  TempDir directory_;
};

}  // namespace dblock::test
