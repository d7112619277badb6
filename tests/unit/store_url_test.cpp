#include <filesystem>

#include "store/config/settings.hpp"
#include "support/catch.hpp"

namespace dblock::store {
namespace {

using namespace std::chrono_literals;
using Hosts = std::vector<HostPort>;

std::string refusal(std::string_view url) {
  const auto parsed = parse_url(url);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().code == Errc::config);
  return parsed.error().message;
}

}  // namespace

TEST_CASE("a database URL names user, password, hosts and database") {
  const auto url = parse_url("mysql://nightly:s3cret@db1:3307,db2/locks");
  REQUIRE(url);
  CHECK(url->user == "nightly");
  CHECK(url->password == "s3cret");
  CHECK(url->hosts == Hosts{{"db1", 3307}, {"db2", 0}});
  CHECK(url->database == "locks");
  CHECK_FALSE(url->tls);
  CHECK_FALSE(url->min_replicas);
  CHECK(parse_url("mysql://db1,db2/locks?min-replicas=2")->min_replicas == 2U);
  CHECK_FALSE(parse_url("mysql://db1/locks")->connection);
  CHECK(parse_url("mysql://db1/locks?connection=auto")->connection == HolderSession::automatic);
  CHECK(parse_url("mysql://db1/locks?connection=keep")->connection == HolderSession::keep);
  CHECK(parse_url("mysql://db1/locks?connection=brief")->connection == HolderSession::brief);
}

TEST_CASE("every part of a database URL may be left to the option file") {
  const auto url = parse_url("mariadb:///locks");
  REQUIRE(url);
  CHECK(url->hosts.empty());
  CHECK_FALSE(url->user);
  CHECK(url->database == "locks");
  const auto host_only = parse_url("MySQL://db1");
  REQUIRE(host_only);
  CHECK(host_only->hosts == Hosts{{"db1", 0}});
  CHECK_FALSE(host_only->database);
}

TEST_CASE("percent-encoding in a database URL is decoded") {
  const auto url = parse_url("mysql://a%40b:p%2Fw%3F%23%25@db1/my%20locks?socket=%2Frun%2Fx.sock");
  REQUIRE_FALSE(url);  // a remote host and a socket contradict each other
  const auto without_host =
      parse_url("mysql://a%40b:p%2Fw%3F%23%25@localhost/my%20locks?socket=%2Frun%2Fx.sock");
  REQUIRE(without_host);
  CHECK(without_host->user == "a@b");
  CHECK(without_host->password == "p/w?#%");
  CHECK(without_host->database == "my locks");
  CHECK(without_host->socket == "/run/x.sock");
}

TEST_CASE("IPv6 addresses stand in brackets") {
  const auto url = parse_url("mysql://[::1]:3307,[2001:db8::7]/locks");
  REQUIRE(url);
  CHECK(url->hosts == Hosts{{"::1", 3307}, {"2001:db8::7", 0}});
  refusal("mysql://[::1/locks");
  refusal("mysql://::1/locks");
  refusal("mysql://[db1]/locks");
}

TEST_CASE("all parameters of a database URL are read") {
  const auto url = parse_url(
      "mysql://db1/locks?tls=verify-full&tls-ca=ca.pem&tls-cert=c.pem&tls-key=k.pem&connect-timeout=1500ms&"
      "password-file=/run/secret");
  REQUIRE(url);
  CHECK(url->tls == TlsMode::verify_full);
  CHECK(url->tls_ca == "ca.pem");
  CHECK(url->tls_cert == "c.pem");
  CHECK(url->tls_key == "k.pem");
  CHECK(url->connect_timeout == 1500ms);
  CHECK(url->password_file == "/run/secret");
  const auto command = parse_url("mysql://h/d?password-command=pass%20show%20db%20%26%26%20true");
  REQUIRE(command);
  CHECK(command->password_command->command == "pass show db && true");
}

TEST_CASE("an unknown parameter of a database URL is refused by name") {
  CHECK(refusal("mysql://db1/locks?max-replicas=1").find("\"max-replicas\"") != std::string::npos);
  CHECK(refusal("mysql://db1/locks?colour=red").find("\"colour\"") != std::string::npos);
}

TEST_CASE("faulty parameter values of a database URL are refused by name") {
  CHECK(refusal("mysql://db1/locks?tls=maybe").find("tls") != std::string::npos);
  CHECK(refusal("mysql://db1/locks?connect-timeout=5").find("connect-timeout") != std::string::npos);
  CHECK(refusal("mysql://db1/locks?connect-timeout=0").find("connect-timeout") != std::string::npos);
  for (const std::string value : {"-1", "one", "1s", "101", ""})
    CHECK(refusal("mysql://db1/locks?min-replicas=" + value).find("min-replicas") != std::string::npos);
  for (const std::string value : {"short", "Keep", ""})
    CHECK(refusal("mysql://db1/locks?connection=" + value).find("connection") != std::string::npos);
  CHECK(refusal("mysql://db1/locks?socket=").find("socket") != std::string::npos);
  CHECK(refusal("mysql://db1/locks?socket=%2").find("socket") != std::string::npos);
}

TEST_CASE("another kind of database is refused with the kinds there are") {
  const auto message = refusal("postgres://db1/locks");
  CHECK(message.find("\"postgres\"") != std::string::npos);
  CHECK(message.find("mysql://") != std::string::npos);
  CHECK(message.find("mariadb://") != std::string::npos);
  CHECK(message.find("sqlite:PATH") != std::string::npos);
  CHECK(refusal("/var/lib/locks.db").find("sqlite:PATH") != std::string::npos);
  refusal("db1/locks");
  refusal("mysql:db1/locks");
  refusal("");
}

TEST_CASE("a file is named by sqlite: and its path, taken as it is") {
  const auto path = [](std::string_view url) {
    CAPTURE(url);
    CHECK(is_sqlite_url(url));
    const auto parsed = parse_sqlite_url(url);
    REQUIRE(parsed);
    CHECK(parsed->path.front() == '/');
    return parsed->path;
  };
  const std::string here = std::filesystem::current_path().string();
  CHECK(path("sqlite:/var/lib/x.db") == "/var/lib/x.db");
  CHECK(path("SQLite:/x.db") == "/x.db");
  CHECK(path("sqlite:///var/lib/x.db") == "/var/lib/x.db");
  CHECK(path("sqlite:x.db") == here + "/x.db");
  CHECK(path("sqlite:./~") == here + "/./~");
  CHECK(path("sqlite:/a%20b?mode=ro&x#y @c:d.db") == "/a%20b?mode=ro&x#y @c:d.db");
  CHECK(SqliteSettings{"/var/lib/x.db"}.display() == "sqlite:/var/lib/x.db");
  for (const auto* const other : {"mysql://db1/locks", "sqlite", "/x/sqlite:y", ""}) {
    CAPTURE(other);
    CHECK_FALSE(is_sqlite_url(other));
  }
}

TEST_CASE("a sqlite: URL that names no file of this host is refused with the reason") {
  const auto refused = [](std::string_view url) {
    CAPTURE(url);
    const auto parsed = parse_sqlite_url(url);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == Errc::config);
    CHECK(parsed.error().message.find("sqlite:PATH") != std::string::npos);
    return parsed.error().message;
  };
  using Catch::Contains;
  CHECK_THAT(refused("sqlite:"), Contains("no file"));
  CHECK_THAT(refused("sqlite://"), Contains("no file"));
  CHECK_THAT(refused("sqlite:///"), Contains("directory"));
  CHECK_THAT(refused("sqlite:/var/lib/"), Contains("directory"));
  CHECK_THAT(refused("sqlite:/var/lib/x.db?min-replicas=1"), Contains("replicas"));
  CHECK_THAT(refused("sqlite://db1/locks.db"), Contains("host"));
  CHECK_THAT(refused("sqlite::memory:"), Contains("memory"));
  CHECK_THAT(refused("sqlite:~/locks.db"), Contains("~"));
  CHECK_THAT(refused("sqlite:/a\nb"), Contains("control"));
  CHECK_THAT(refused(std::string_view("sqlite:/a\0b", 11)), Contains("control"));
  CHECK_THAT(refused("sqlite:/a\x7f"), Contains("control"));
}

TEST_CASE("line ends and blanks around a URL are no part of it, and a line end within is refused") {
  for (const std::string around : {"\n", "\r", "\r\n", " ", "\n\n"}) {
    CAPTURE(around);
    const auto plain = parse_url("mysql://u:p@db1/locks" + around);
    REQUIRE(plain);
    CHECK(plain->database == "locks");
    const auto with_parameter = parse_url("mysql://u@db1/locks?tls=off" + around);
    REQUIRE(with_parameter);
    CHECK(with_parameter->tls == TlsMode::off);
  }
  CHECK(parse_url(" mysql://u@db1/locks"));
  CHECK(parse_url("mysql://u@db1/locks%0A")->database == "locks\n");  // the server refuses it
  for (const auto* const url :
       {"mysql://u@db1/lo\ncks", "mysql://u@db1\r\n/locks", "mysql://u@db1/l\r\n?tls=off"})
    CHECK(refusal(url).find("the end of a line") != std::string::npos);
  CHECK(parse_sqlite_url("sqlite:/var/lib/locks.db\r\n")->path == "/var/lib/locks.db");
}

TEST_CASE("a host that the client library would read as options is refused") {
  refusal("mysql://host=db1;ssl-verify=0/locks");
  refusal("mysql://host%3Ddb1/locks");
  refusal("mysql://db1,/locks");
  refusal("mysql://u@:3306/locks");
}

TEST_CASE("ports are numbers from 1 to 65535") {
  for (const auto* const port : {"0", "65536", "-1", "3306x", "", "99999999999"})
    refusal("mysql://db1:" + std::string(port) + "/locks");
}

TEST_CASE("no message about a database URL repeats the password") {
  for (const auto* const url : {
           "mysql://u:hunter2@db1:x/locks",
           "mysql://u:hunter2/@db1/locks",
           "mysql://u:hunter2%@db1/locks",
           "mysql://u:hunter2?x@db1/locks",
           "mysql://u:1?HUNTER2=hunter2@db1/locks",
           "mysql://u:1?connect-timeout=hunter2&x@db1/locks",
           "mysql://u:1@db1/hunter2@",
           "mysql://u:hunter2@db1/locks?x=y",
           "mysql://u:hunter2@db1/locks?tls=hunter2",
           "hunter2:mysql",
       }) {
    CAPTURE(url);
    CHECK(refusal(url).find("hunter2@") == std::string::npos);
    CHECK(refusal(url).find("hunter2/") == std::string::npos);
    CHECK(refusal(url).find("hunter2\"") == std::string::npos);
  }
}

}  // namespace dblock::store
