#include "support/certificates.hpp"

#include <stdexcept>

#include "support/process.hpp"

namespace dblock::test {
namespace {

constexpr const char* k_our_names = "subjectAltName=IP:127.0.0.1,DNS:localhost";
constexpr const char* k_long_ago = "20200101000000Z";
constexpr const char* k_long_since = "20200201000000Z";
constexpr const char* k_far_off = "20490101000000Z";

// `openssl x509` cannot date a certificate back in every version; `openssl ca` can, and wants a file.
constexpr const char* k_issuer =
    "[ca]\ndefault_ca=issuer\n"
    "[issuer]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\npolicy=any\nunique_"
    "subject="
    "no\n"
    "[any]\ncommonName=supplied\n";

const std::vector<std::string> k_new_key{"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"};

}  // namespace

Certificates::Certificates() : directory_(state_dir()) {
  write_file(file("index"), "");
  write_file(file("issuer.cnf"), k_issuer);
  self_signed("ca", "basicConstraints=critical,CA:TRUE");
  self_signed("foreign", "basicConstraints=critical,CA:TRUE");
  self_signed("self-signed", k_our_names);
  issue("good", k_our_names, k_long_ago, k_far_off);
  issue("expired", k_our_names, k_long_ago, k_long_since);
  issue("wrong-name", "subjectAltName=DNS:somewhere.else.example", k_long_ago, k_far_off);
}

std::vector<std::string> Certificates::server_options(const std::string& name) const {
  return {"--ssl-ca=" + authority(), "--ssl-cert=" + file(name + ".pem"), "--ssl-key=" + file(name + ".key")};
}

void Certificates::openssl(std::vector<std::string> words) const {
  words.insert(words.begin(), "openssl");
  const auto done = run_program({.argv = words, .cwd = directory_.path()}, 60s);
  if (done.exit != exited(0)) throw std::runtime_error("openssl failed: " + done.err);
}

void Certificates::self_signed(const std::string& name, const std::string& extensions) const {
  std::vector<std::string> words{"req", "-x509", "-days", "2", "-subj", "/CN=" + name};
  words.insert(words.end(), k_new_key.begin(), k_new_key.end());
  words.insert(words.end(), {"-addext", extensions, "-keyout", name + ".key", "-out", name + ".pem"});
  openssl(words);
}

void Certificates::issue(const std::string& name, const std::string& names, const std::string& first_day,
                         const std::string& last_day) const {
  std::vector<std::string> words{"req", "-subj", "/CN=" + name};
  words.insert(words.end(), k_new_key.begin(), k_new_key.end());
  words.insert(words.end(), {"-keyout", name + ".key", "-out", name + ".csr"});
  openssl(words);
  write_file(file(name + ".ext"), names + "\n");
  openssl({"ca", "-batch", "-notext", "-config", "issuer.cnf", "-cert", "ca.pem", "-keyfile", "ca.key",
           "-extfile", name + ".ext", "-startdate", first_day, "-enddate", last_day, "-in", name + ".csr",
           "-out", name + ".pem"});
}

}  // namespace dblock::test
