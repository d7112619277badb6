// Settings that can never work end a run at once, and what may pass is waited out.

#include "support/catch.hpp"
#include "support/certificates.hpp"
#include "support/dblock.hpp"
#include "support/fake_server.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// The patience is an hour: whoever retries fails here by its time.
Finished waiting_with(const std::string& url) {
  return dblock_at(url, run_words("k", {"--wait", "1h"}, {"true"}));
}

std::string with_database(const ServerDatabase& database, const std::string& name) {
  std::string url = database.tcp_url();
  return url.replace(url.rfind('/') + 1, std::string::npos, name);
}

TEST_CASE("settings that can never work are 78 at once, whatever the wait", "[server][other-servers]") {
  const ServerDatabase database;
  const TempDir directory;
  write_file(directory.file("plain"), "");
  const std::string by_socket = "mysql://app@localhost/d?socket=";
  check_ended(waiting_with(by_socket + "/" + std::string(120, 'x')), 78, {"at most 107"});
  for (const auto& host : {std::string(254, 'x'), std::string(64, 'x') + ".example"})
    check_ended(waiting_with("mysql://app@" + host + "/d"), 78, {"impossible host name"});
  check_ended(waiting_with(by_socket + directory.file("plain")), 78, {"is no socket"});
  check_ended(waiting_with(by_socket + directory.path()), 78, {"is no socket"});
  check_ended(waiting_with(with_database(database, "locks%0A")), 78, {"control character"});
  for (const auto& name : {std::string("locks%20"), std::string(70, 'x'), std::string("%ff%fe")}) {
    CAPTURE(name);
    check_ended(waiting_with(with_database(database, name)), 78);
  }
}

TEST_CASE("a server without tls, and a certificate that proves nothing, are 78 at once, whatever the wait",
          "[server]") {
  const Certificates certificates;
  const std::string ca = "&tls-ca=" + certificates.authority();
  const std::string foreign = "&tls-ca=" + certificates.file("foreign.pem");
  const auto refused = [&](const Server& server, const std::string& tls) {
    CAPTURE(tls);
    const ServerDatabase database(server.address());
    check_ended(waiting_with(database.tcp_url() + "?tls=" + tls), 78);
  };
  {
    const Server server({without_tls()});
    for (const auto& tls : {std::string("require"), "verify-ca" + ca, "verify-full" + ca})
      refused(server, tls);
  }
  {
    const Server server(certificates.server_options("expired"));
    for (const auto& tls : {"verify-ca" + ca, "verify-full" + ca, "verify-full" + foreign})
      refused(server, tls);
  }
  const Server server(certificates.server_options("wrong-name"));
  refused(server, "verify-full" + ca);
  refused(server,
          "require&tls-cert=" + certificates.file("good.pem") + "&tls-key=" + certificates.file("ca.key"));
}

TEST_CASE("tls files that cannot be read, or hold nothing that fits, are 78 at once, whatever the wait",
          "[server]") {
  const Certificates certificates;
  const Server server(certificates.server_options("good"));
  const ServerDatabase database(server.address());
  const auto refused = [&](const std::string& tls, const Words& said) {
    check_ended(waiting_with(database.tcp_url() + "?tls=" + tls), 78, said);
  };
  refused("require&tls-cert=" + certificates.file("good.pem"), {"tls-cert and tls-key"});
  std::string torn = read_file(certificates.authority());
  torn[torn.size() / 2] = '*';
  write_file(certificates.file("torn.pem"), torn);
  refused("verify-ca&tls-ca=" + certificates.file("torn.pem"), {"check tls, tls-ca"});
  refused("verify-ca&tls-ca=" + certificates.authority() + "/x.pem", {"cannot be read: Not a directory"});
}

// Real servers refuse a host, and a connection too many, before any TLS.
TEST_CASE("a refusal in a server's first packet counts as its own, whatever tls asks for", "[server]") {
  const auto [tls, number, code, said] = GENERATE(table<std::string, int, int, std::string>(
      {{"off", 1130, 77, "Host 'h' is not allowed (error 1130)"},
       {"prefer", 1130, 77, "Host 'h' is not allowed (error 1130)"},
       {"require", 1130, 77, "Host 'h' is not allowed (error 1130)"},
       {"prefer", 1040, 69, "Host 'h' is not allowed (error 1040)"}}));
  CAPTURE(tls, number);
  FakeServer server([number = number](Wire& wire) {
    wire.send("\xff" + std::string{static_cast<char>(number & 0xff), static_cast<char>(number >> 8)} +
              "Host 'h' is not allowed");
  });
  const std::string wait = code == 77 ? "1h" : "1s";
  check_ended(dblock_at(server.url("app", "?tls=" + tls), run_words("k", {"--wait", wait}, {"true"})), code,
              {said});
}

TEST_CASE("the next host is tried where the first one shows a wrong certificate", "[server]") {
  const Certificates certificates;
  const Server wrong(certificates.server_options("wrong-name"));
  const Server right(certificates.server_options("good"));
  const ServerDatabase database(right.address());
  const std::string url = "mysql://app@127.0.0.1:" + std::to_string(wrong.address().port) +
                          ",127.0.0.1:" + std::to_string(right.address().port) + "/" + database.name() +
                          "?tls=verify-full&tls-ca=" + certificates.authority();
  CHECK(dblock_at(url, run_words("k", {}, {"true"})).exit == exited(0));
}

TEST_CASE("a handshake that is broken off is 69, and tried again within the wait", "[server]") {
  FakeServer silent([](Wire&) {});
  const std::string url = silent.url("app", "?tls=require");
  check_ended(dblock_at(url, run_words("k", {"--wait", "1s"}, {"true"})), 69);
}

TEST_CASE("a server that demands tls of every connection is 78 without tls", "[server][mysql]") {
  const Server server({"--require-secure-transport=ON"});
  const ServerDatabase database(server.address());
  check_ended(waiting_with(database.tcp_url() + "?tls=off"), 78, {"use tls=verify-full"});
}

}  // namespace
}  // namespace dblock::test
