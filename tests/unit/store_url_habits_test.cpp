// What other programs write in their URLs: the refusal shows it and says dblock's word.
#include "store/config/settings.hpp"
#include "support/catch.hpp"

namespace dblock::store {
namespace {

using Catch::Contains;
using Pair = std::pair<std::string, std::string>;

std::string refused(const std::string& url) {
  CAPTURE(url);
  const auto parsed = parse_url(url);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().code == Errc::config);
  CHECK_THAT(parsed.error().message, !Contains("hunter2"));
  return parsed.error().message;
}

const std::string k_good = "mysql://jobs:hunter2@db1/locks";

void check_meant(const std::string& parameter, const std::string& meant) {
  CAPTURE(parameter);
  const auto message = refused(k_good + "?" + parameter);
  CHECK_THAT(message, Contains("\"" + parameter.substr(0, parameter.find('=')) + "\""));
  CHECK_THAT(message, Contains("write " + meant));
}

}  // namespace

TEST_CASE("a parameter of another program's URL is answered with dblock's own") {
  for (const auto& [parameter, meant] : {
           Pair{"ssl-mode=REQUIRED", "tls=require"},
           {"ssl_mode=DISABLED", "tls=off"},
           {"sslMode=VERIFY_CA", "tls=verify-ca"},
           {"sslMode=verify-full", "tls=verify-full"},
           {"sslmode=preferred", "tls=prefer"},
           {"ssl-mode=VERIFY_IDENTITY", "tls=verify-full"},
           {"sslMode=trust", "tls=require"},
           {"ssl-mode=whatever", "tls=off, prefer, require"},
           {"useSSL=true", "tls=require"},
           {"useSSL=false", "tls=off"},
           {"ssl=1", "tls=require"},
           {"ssl={\"rejectUnauthorized\":true}", "tls=verify-full"},
           {"ssl=%7B%22rejectUnauthorized%22%3Afalse%7D", "tls=require"},
           {"ssl=Amazon%20RDS", "tls=verify-full"},
           {"sslaccept=strict", "tls=verify-full"},
           {"sslaccept=accept_invalid_certs", "tls=require"},
           {"verifyServerCertificate=true", "tls=verify-full"},
           {"trustServerCertificate=true", "tls=require"},
           {"ssl_verify_identity=True", "tls=verify-full"},
           {"ssl_disabled=True", "tls=off"},
           {"TLS=REQUIRED", "tls=require"},
           {"ssl_ca=/x", "tls-ca=FILE"},
           {"sslca=/x", "tls-ca=FILE"},
           {"ssl-ca=/x", "tls-ca=FILE"},
           {"ssl.ca=/x", "tls-ca=FILE"},
           {"serverSslCert=/x", "tls-ca=FILE"},
           {"sslcert=/x", "tls-cert=FILE"},
           {"ssl_key=/x", "tls-key=FILE"},
           {"tls_ca=/x", "tls-ca"},
           {"unix_socket=/x", "socket=PATH"},
           {"socketPath=/x", "socket=PATH"},
           {"localSocket=/x", "socket=PATH"},
           {"connect_timeout=10", "connect-timeout with a unit"},
           {"timeout=5s", "connect-timeout with a unit"},
           {"passwordFile=/x", "password-file"},
           {"password=hunter2", "password-file=FILE"},
           {"user=jobs", "it before the ?: mysql://USER@HOST"},
           {"read_default_file=/x", "--defaults-file FILE"},
       }) {
    check_meant(parameter, meant);
  }
}

TEST_CASE("a parameter that means nothing to dblock is shown as written and is to be left out") {
  for (const std::string name : {"serverVersion", "charset", "encoding", "pool", "reconnect",
                                 "connection_limit", "pool_timeout", "allowPublicKeyRetrieval", "parseTime",
                                 "loc", "collation", "max_replicas", "utf8mb4", "a+b", "x.y", "N1"}) {
    const auto message = refused(k_good + "?" + name + "=5");
    CHECK_THAT(message, Contains("\"" + name + "\"") && Contains("leave it out") && Contains("min-replicas"));
  }
  CHECK_THAT(refused(k_good + "?a%1bb=1"), !Contains("\x1b") && Contains("leave it out"));
}

TEST_CASE("a mode of TLS in another program's words is answered with dblock's") {
  CHECK_THAT(refused(k_good + "?tls=skip-verify"), Contains("must be off") && Contains("write tls=require"));
  CHECK_THAT(refused(k_good + "?tls=true"), Contains("write tls=verify-full"));
  CHECK_THAT(refused(k_good + "?tls=hunter2"), Contains("must be off") && !Contains("write"));
}

TEST_CASE("another program's scheme is shown with the one to use") {
  for (const auto& [scheme, use] : {Pair{"mysql2", "use mysql://"},
                                    {"mysql+pymysql", "use mysql://"},
                                    {"mysql+mysqldb", "use mysql://"},
                                    {"MySQL-ssl", "use mysql://"},
                                    {"pdo_mysql", "use mysql://"},
                                    {"jdbc:mysql", "use mysql://"},
                                    {"jdbc:mysql:replication", "use mysql://"},
                                    {"jdbc:mariadb", "use mariadb://"},
                                    {"r2dbc:mysql", "use mysql://"},
                                    {"mariadb+mariadbconnector", "use mariadb://"},
                                    {"trilogy", "use mysql://"},
                                    {"sqlite3", "use sqlite:PATH"},
                                    {"postgres", "use mysql://, mariadb:// or sqlite:PATH"},
                                    {"postgresql+psycopg2", "or sqlite:PATH"}}) {
    const auto message = refused(scheme + "://jobs:hunter2@db1/locks");
    CHECK_THAT(message, Contains("\"" + scheme + "\""));
    CHECK_THAT(message, Contains(use));
  }
  for (const std::string user : {"jobs", "jobs2"})
    CHECK_THAT(refused(user + ":hunter2@tcp(db1:3306)/locks"), !Contains(user) && Contains("mysql://"));
  CHECK_THAT(refused("mysql://jobs:hunter2@tcp(db1:3306)/locks"), Contains("HOST:PORT is enough"));
}

TEST_CASE("what stands before a scheme that would do is to be left out, and is not shown") {
  for (const std::string before : {"DBLOCK_DB=", "export DBLOCK_DB=", "<", "hunter2 "}) {
    const auto message = refused(before + k_good);
    CHECK_THAT(message, Contains("something before mysql://; leave it out") && !Contains("hunter2"));
  }
}

TEST_CASE("a URL in quotes is refused because of the quotes") {
  for (const std::string quote : {"\"", "'", "`", "\u201c", "\u2018"}) {
    for (const std::string& url : {k_good, std::string("sqlite:/x"), std::string()})
      CHECK_THAT(refused(quote + url + quote), Contains("quote"));
  }
}

TEST_CASE("what may be the rest of a password with a question mark is not shown") {
  for (const std::string rest :
       {"hunter2=x@db1/locks", "hunter2@db1/locks", "HUNTER2=1&hunter2=@db1/locks", "hunter2"}) {
    CHECK_THAT(refused("mysql://jobs:1?" + rest), Contains("percent-encoded") && !Contains("HUNTER2"));
  }
}

}  // namespace dblock::store
