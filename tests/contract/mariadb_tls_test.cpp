// TLS on MariaDB: what must be refused is refused, and before a password goes out.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "base/unique_fd.hpp"
#include "contract/mariadb_store.hpp"
#include "support/catch.hpp"
#include "support/certificates.hpp"

namespace dblock::contract {
namespace {

using namespace std::chrono_literals;
using test::Certificates;
using test::Server;

bool connects(const std::string& url) {
  const auto connected = MariadbUnderTest::open_at(url)->connect();
  if (!connected) {
    INFO(connected.error().message);
    CHECK(connected.error().code == Errc::config);
  }
  return connected.has_value();
}

bool connects(MariadbUnderTest& t, const std::string& parameters) {
  return connects(t.database().tcp_url() + parameters);
}

// The ways to one server. The name resolves to the loopback, too.
std::vector<std::string> ways_to(MariadbUnderTest& t) {
  const std::string by_address = t.database().tcp_url() + "?";
  std::string by_name = by_address;
  by_name.replace(by_name.find("127.0.0.1"), 9, "localhost");
  return {t.database().url() + "&", by_address, by_name};
}

// Greets like a server that offers no TLS, asks for the password itself, and keeps all that it is sent.
class Impostor {
 public:
  Impostor() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener_.get(), generic, size) == 0);
    REQUIRE(::listen(listener_.get(), 8) == 0);
    REQUIRE(::getsockname(listener_.get(), generic, &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }

  [[nodiscard]] int port() const { return port_; }
  // Ends the impostor.
  std::string heard() {
    thread_.request_stop();
    thread_.join();
    return heard_;
  }

 private:
  static std::string packet(char number, const std::string& body) {
    return std::string{static_cast<char>(body.size()), 0, 0, number} + body;
  }

  static std::string greeting() {
    using namespace std::string_literals;
    // Protocol 10, capabilities without CLIENT_SSL (0x0800 of the lower half) but with plugin authentication.
    return packet(0, "\x0a" + "10.11.19-MariaDB\0"s + "\1\0\0\0"s + "abcdefgh\0"s + "\xff\xf7"s + "\x21" +
                         "\2\0"s + "\xff\x80"s + "\x15" + std::string(10, '\0') + "ijklmnopqrst\0"s +
                         "mysql_native_password\0"s);
  }

  // "Use mysql_clear_password": the reply would be the password.
  static std::string ask_for_password() {
    using namespace std::string_literals;
    return packet(2, "\xfe" + "mysql_clear_password\0"s);
  }

  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20) != 1) continue;
      const UniqueFd client(::accept(listener_.get(), nullptr, nullptr));
      send_text(client.get(), greeting());
      if (receive(client.get())) send_text(client.get(), ask_for_password());
      receive(client.get());
    }
  }

  static void send_text(int fd, const std::string& text) {
    (void)!::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
  }

  bool receive(int fd) {
    pollfd client{fd, POLLIN, 0};
    if (::poll(&client, 1, 500) != 1) return false;
    char bytes[4096];
    const auto n = ::recv(fd, bytes, sizeof bytes, 0);
    if (n > 0) heard_.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  }

  UniqueFd listener_;
  int port_ = 0;
  std::string heard_;
  std::jthread thread_;
};

std::string what_an_impostor_hears(const std::string& tls) {
  Impostor impostor;
  const auto store =
      MariadbUnderTest::open_at("mysql://visitor:hunter2@127.0.0.1:" + std::to_string(impostor.port()) +
                                "/locks?connect-timeout=2s&tls=" + tls);
  CHECK_FALSE(store->connect());
  return impostor.heard();
}

}  // namespace

TEST_CASE("mariadb: without TLS on the server only off and prefer connect") {
  const Certificates certificates;
  const Server own({test::without_tls()});
  MariadbUnderTest t(own.address());
  const std::string ca = "&tls-ca=" + certificates.authority();
  CHECK(connects(t, ""));
  CHECK(connects(t, "?tls=off"));
  CHECK(connects(t, "?tls=prefer"));
  CHECK_FALSE(connects(t, "?tls=require"));
  CHECK_FALSE(connects(t, "?tls=verify-ca" + ca));
  CHECK_FALSE(connects(t, "?tls=verify-full" + ca));
  CHECK_FALSE(connects(t, "?tls=verify-full"));
}

// The same table for every way to the server and every version of the client library, some of which would
// make exceptions for connections within the host.
TEST_CASE("mariadb: each tls mode refuses the certificates that it says, over every way to the server",
          "[mariadb]") {
  struct Expectation {
    std::string certificate;
    bool require, verify_ca, verify_full;
  };
  const auto expected = GENERATE(values<Expectation>({{"good", true, true, true},
                                                      {"wrong-name", true, true, false},
                                                      {"expired", true, false, false},
                                                      {"self-signed", true, false, false}}));
  const Certificates certificates;
  const Server own(certificates.server_options(expected.certificate));
  MariadbUnderTest t(own.address());
  const std::string ca = "&tls-ca=" + certificates.authority();
  for (const auto& way : ways_to(t)) {
    CAPTURE(expected.certificate, way);
    CHECK(connects(way + "tls=off"));
    CHECK(connects(way + "tls=prefer"));
    CHECK(connects(way + "tls=require") == expected.require);
    CHECK(connects(way + "tls=verify-ca" + ca) == expected.verify_ca);
    CHECK(connects(way + "tls=verify-full" + ca) == expected.verify_full);
    // Neither the system nor another authority vouches for any of them.
    const std::string foreign = "&tls-ca=" + certificates.file("foreign.pem");
    CHECK_FALSE(connects(way + "tls=verify-ca" + foreign));
    CHECK_FALSE(connects(way + "tls=verify-full" + foreign));
    CHECK_FALSE(connects(way + "tls=verify-full"));
  }
}

TEST_CASE("mariadb: a self-signed certificate may vouch for itself where it is the authority") {
  const Certificates certificates;
  const Server own(certificates.server_options("self-signed"));
  MariadbUnderTest t(own.address());
  const std::string itself = "&tls-ca=" + certificates.file("self-signed.pem");
  for (const auto& way : ways_to(t)) {
    CAPTURE(way);
    CHECK(connects(way + "tls=verify-ca" + itself));
    CHECK(connects(way + "tls=verify-full" + itself));
  }
}

TEST_CASE("mariadb: whoever shows a wrong certificate is not even asked to log in", "[mariadb]") {
  const auto* const certificate = GENERATE("wrong-name", "expired", "self-signed");
  CAPTURE(certificate);
  const Certificates certificates;
  const Server own(certificates.server_options(certificate));
  MariadbUnderTest t(own.address());
  const auto logins = [&] {
    return t.database().number(
        "SELECT variable_value FROM information_schema.global_status WHERE "
        "variable_name='Access_denied_errors'");
  };
  const auto before = logins();
  std::string way = t.database().tcp_url("visitor:hunter2");
  CHECK_FALSE(connects(way + "?tls=verify-full&tls-ca=" + certificates.authority()));
  CHECK_FALSE(connects(way + "?tls=verify-full"));
  CHECK(logins() == before);
  CHECK_FALSE(MariadbUnderTest::open_at(way + "?tls=require")->connect());
  CHECK(logins() == before + 1);
}

TEST_CASE("mariadb: the connection is encrypted when TLS is required") {
  const Certificates certificates;
  const Server own(certificates.server_options("good"));
  MariadbUnderTest t(own.address());
  t.database().sql("CREATE USER locked@'%' REQUIRE SSL");
  t.database().sql("GRANT ALL ON " + t.database().name() + ".* TO locked@'%'");
  const auto connected = [&](const std::string& mode) {
    return MariadbUnderTest::open_at(t.database().tcp_url("locked") + mode)->connect().has_value();
  };
  CHECK(connected("?tls=require"));
  CHECK(connected("?tls=prefer"));
  CHECK_FALSE(connected("?tls=off"));
}

TEST_CASE("mariadb: a server without TLS hears not even the user's name when TLS is required") {
  const Certificates certificates;
  const std::string ca = "&tls-ca=" + certificates.authority();
  for (const auto& mode : {std::string("require"), "verify-ca" + ca, "verify-full" + ca}) {
    CAPTURE(mode);
    CHECK(what_an_impostor_hears(mode).empty());
  }
}

TEST_CASE("mariadb: a server that asks for the password itself does not get it") {
  for (const auto* const mode : {"off", "prefer"}) {
    CAPTURE(mode);
    const std::string heard = what_an_impostor_hears(mode);
    CHECK(heard.find("visitor") != std::string::npos);
    CHECK(heard.find("hunter2") == std::string::npos);
    // Capability 0x80 would let the server ask for any of this host's files (LOCAL INFILE).
    REQUIRE(heard.size() > 8);
    CHECK((static_cast<unsigned char>(heard[4]) & 0x80U) == 0);
  }
}

// The library would wait for ten seconds, and the server for two, several times.
TEST_CASE("mariadb: a renewal without an answer is given up in time over the socket, plain TCP and TLS",
          "[safety][once]") {
  const Certificates certificates;
  const Server own(certificates.server_options("good"));
  MariadbUnderTest t(own.address());
  SystemClock clock;
  const std::string way = GENERATE("socket", "?tls=off", "?tls=require");
  const std::string url = way == "socket" ? t.database().url() : t.database().tcp_url() + way;
  CAPTURE(url);
  store::SessionOptions options;
  options.renewal_timeout = 250ms;
  const auto store = store::open_store(settings_of(url), options, clock);
  const auto taken = store->try_acquire(request_for("k", "owner"));
  REQUIRE(taken);
  REQUIRE(std::holds_alternative<lease::Granted>(*taken));
  const auto ref = ref_to(std::get<lease::Granted>(*taken).lease);
  const auto renewed = [&] {
    const auto outcome = store->renew(ref, lease::Actor::holder, 60s);
    return outcome && std::holds_alternative<lease::Renewed>(*outcome);
  };
  CHECK(renewed());
  {
    test::Connection other(t.database().server(), "root", t.database().name());
    other.sql("BEGIN");
    other.sql("SELECT * FROM dblock_lock" + t.where("k") + " FOR UPDATE");
    // The server would end the wait for the row after two seconds, with an answer.
    const auto unheard = store->renew(ref, lease::Actor::holder, 60s);
    REQUIRE_FALSE(unheard);
    CHECK(unheard.error().code == Errc::indeterminate);
  }
  CHECK(test::wait_until(renewed));
  // The release is no renewal: it waits for its answer.
  test::Connection other(t.database().server(), "root", t.database().name());
  other.sql("BEGIN");
  other.sql("SELECT * FROM dblock_lock" + t.where("k") + " FOR UPDATE");
  const std::jthread later([&] {
    std::this_thread::sleep_for(500ms);
    other.sql("ROLLBACK");
  });
  const auto released = store->release(ref, lease::Actor::holder, {});
  REQUIRE(released);
  CHECK(std::holds_alternative<lease::Released>(*released));
}

}  // namespace dblock::contract
