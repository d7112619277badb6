// TLS modes refuse what they promise to refuse: plaintext, foreign certificates, wrong names.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "support/catch.hpp"
#include "support/certificates.hpp"
#include "support/dblock.hpp"
#include "support/fake_server.hpp"

namespace dblock::test {
namespace {

Exit inspect_with(const ServerDatabase& database, const std::string& parameters) {
  const auto finished = dblock_bare({"inspect"}, {"DBLOCK_DB=" + database.tcp_url() + "?" + parameters});
  UNSCOPED_INFO(parameters << ": " << finished.err);
  return finished.exit;
}

TEST_CASE("a server without tls is refused by every mode that demands it", "[server]") {
  const Server server({without_tls()});
  const ServerDatabase database(server.address());
  const Certificates certificates;
  CHECK(inspect_with(database, "tls=off") == exited(0));
  CHECK(inspect_with(database, "tls=prefer") == exited(0));
  CHECK(inspect_with(database, "tls=require") != exited(0));
  CHECK(inspect_with(database, "tls=verify-ca&tls-ca=" + certificates.authority()) != exited(0));
  CHECK(inspect_with(database, "tls=verify-full&tls-ca=" + certificates.authority()) != exited(0));
}

TEST_CASE("no run starts its job when tls is demanded and not to be had", "[server]") {
  const Server server({without_tls()});
  const ServerDatabase database(server.address());
  const TempDir directory;
  const auto finished = dblock_bare(run_words("k", {}, {"touch", directory.file("ran")}),
                                    {"DBLOCK_DB=" + database.tcp_url() + "?tls=require"});
  INFO(finished.err);
  CHECK(finished.exit == exited(69));
  CHECK(ends_with_exit_line(finished.err, 69));
  CHECK(finished.err.find("TLS") != std::string::npos);
  CHECK(read_file(directory.file("ran")).empty());
}

TEST_CASE("a server with a good certificate is accepted by every mode", "[server]") {
  const Certificates certificates;
  const Server server(certificates.server_options("good"));
  ServerDatabase database(server.address());
  const std::string ca = "&tls-ca=" + certificates.authority();
  CHECK(inspect_with(database, "tls=prefer") == exited(0));
  CHECK(inspect_with(database, "tls=require") == exited(0));
  CHECK(inspect_with(database, "tls=verify-ca" + ca) == exited(0));
  CHECK(inspect_with(database, "tls=verify-full" + ca) == exited(0));
  // An account that may log in by TLS alone shows that it is really used, with renewals and the guardian too.
  database.sql("CREATE USER sealed@'%' IDENTIFIED BY 'sesame' REQUIRE SSL");
  database.sql("GRANT ALL ON " + database.name() + ".* TO sealed@'%'");
  const auto sealed =
      dblock_bare(run_words("k", {}, {"true"}),
                  {"DBLOCK_DB=" + database.tcp_url("sealed:sesame") + "?tls=verify-full" + ca});
  INFO(sealed.err);
  CHECK(sealed.exit == exited(0));
  CHECK(dblock_bare({"inspect"}, {"DBLOCK_DB=" + database.tcp_url("sealed:sesame") + "?tls=off"}).exit ==
        exited(77));
}

TEST_CASE("a certificate of a foreign authority is refused by verify-ca and verify-full", "[server]") {
  const Certificates certificates;
  const Server server(certificates.server_options("good"));
  const ServerDatabase database(server.address());
  const std::string ca = "&tls-ca=" + certificates.file("foreign.pem");
  CHECK(inspect_with(database, "tls=verify-ca" + ca) != exited(0));
  CHECK(inspect_with(database, "tls=verify-full" + ca) != exited(0));
}

TEST_CASE("a certificate for another name is refused by verify-full", "[server]") {
  const Certificates certificates;
  const Server server(certificates.server_options("wrong-name"));
  const ServerDatabase database(server.address());
  const std::string ca = "&tls-ca=" + certificates.authority();
  CHECK(inspect_with(database, "tls=verify-full" + ca) != exited(0));
}

TEST_CASE("without tls-ca verify-full trusts the system's authorities, and the name counts no less",
          "[server]") {
  const auto [certificate, accepted] =
      GENERATE(table<std::string, bool>({{"good", true}, {"wrong-name", false}, {"expired", false}}));
  CAPTURE(certificate);
  const Certificates certificates;
  const Server server(certificates.server_options(certificate));
  const ServerDatabase database(server.address());
  std::string by_name = database.tcp_url();
  by_name.replace(by_name.find("127.0.0.1"), 9, "localhost");
  for (const std::string& url : {database.tcp_url() + "?", by_name + "?", database.url() + "&"}) {
    const auto finished = dblock_bare(
        {"inspect"}, {"DBLOCK_DB=" + url + "tls=verify-full", "SSL_CERT_FILE=" + certificates.authority()});
    INFO(url << ": " << finished.err);
    CHECK(finished.exit == exited(accepted ? 0 : 69));
    // Ours, or those of a client library that checks by itself.
    const bool said =
        says(finished.err, "the server's certificate is not") || says(finished.err, "TLS/SSL error");
    CHECK(said != accepted);
  }
}

// What stands between dblock and a server and takes the server's offer of TLS out of its greeting.
class Stripper {
 public:
  explicit Stripper(int server_port) : port_(server_port) {}
  void operator()(Wire& client) const {
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    if (::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) relay(client, server);
    ::close(server);
  }

 private:
  static std::string read_some(int fd) {
    char bytes[16384];
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    return got <= 0 ? "" : std::string(bytes, static_cast<std::size_t>(got));
  }
  static void strip(std::string& greeting) {
    constexpr unsigned char k_tls = 0x08;  // in the second byte of what the server can
    const auto end_of_version = greeting.find('\0', 5);
    const std::size_t at = end_of_version + 1 + 4 + 8 + 1 + 1;
    if (end_of_version == std::string::npos || at >= greeting.size()) return;
    greeting[at] = static_cast<char>(static_cast<unsigned char>(greeting[at]) & ~k_tls);
  }
  static void relay(Wire& client, int server) {
    bool greeted = false;
    for (;;) {
      std::array<pollfd, 2> fds{pollfd{client.fd(), POLLIN, 0}, pollfd{server, POLLIN, 0}};
      if (::poll(fds.data(), fds.size(), 10'000) <= 0) return;
      if (fds[0].revents != 0) {
        const std::string part = read_some(client.fd());
        if (part.empty()) return;
        client.note_heard(part);
        (void)!::send(server, part.data(), part.size(), MSG_NOSIGNAL);
      }
      if (fds[1].revents != 0) {
        std::string part = read_some(server);
        if (part.empty()) return;
        if (!std::exchange(greeted, true)) strip(part);
        client.send_raw(part);
      }
    }
  }
  int port_;
};

TEST_CASE("who strips tls from a connection hears nothing where tls is demanded", "[server]") {
  const Certificates certificates;
  const Server server(certificates.server_options("good"));
  ServerDatabase database(server.address());
  const std::string user = database.account("IDENTIFIED BY 'hunter2-hunter2'");
  const std::string ca = "&tls-ca=" + certificates.authority();
  const auto through_stripper = [&](const std::string& tls) {
    FakeServer stripper(Stripper(server.address().port));
    std::string url = stripper.url(user + ":hunter2-hunter2", "?tls=" + tls);
    url.replace(url.find("/d?"), 2, "/" + database.name());
    const auto finished = dblock_bare(run_words("k", {}, {"true"}), {"DBLOCK_DB=" + url});
    stripper.stop();
    UNSCOPED_INFO(tls << ": " << finished.err);
    CHECK_FALSE(says(stripper.heard(), "hunter2"));
    CHECK_FALSE(says(finished.err, "hunter2"));
    return std::pair(finished.exit, stripper.heard());
  };
  for (const auto& tls : {std::string("require"), "verify-ca" + ca, "verify-full" + ca}) {
    const auto [exit, heard] = through_stripper(tls);
    CHECK(exit == exited(69));
    CHECK(heard.empty());  // not even the user's name
  }
  for (const char* tls : {"off", "prefer"}) {
    const auto [exit, heard] = through_stripper(tls);
    // MySQL asks for the password itself, and does not get it.
    CHECK(exit == exited(mysql_run() ? 77 : 0));
    if (!mysql_run()) CHECK(says(heard, user));  // it really stood in between
  }
}

}  // namespace
}  // namespace dblock::test
