// What dblock's environment may not decide: which server, which account, which code, which authority. Cron
// and a shell have different environments and must mean the same lock. The job inherits all of it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <mutex>
#include <thread>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

TEST_CASE("no variable makes the client library or OpenSSL load other code", "[server][other-servers]") {
  DBLOCK_NEEDS(why_no_preload());
  const ServerDatabase database;
  const TempDir directory;
  write_file(directory.file("openssl.cnf"),
             "openssl_conf = all\n[all]\nproviders = list\n[list]\nchosen = module\n[module]\nmodule = " +
                 directory.file("chosen_by_openssl.so") + "\nactivate = 1\n");
  // Over TCP: on a Unix socket, where there is no TLS, OpenSSL reads no configuration at all.
  const auto finished =
      dblock_at(database.tcp_url(), {"inspect"},
                {"LIBMYSQL_PLUGINS=chosen_by_library", "MARIADB_PLUGIN_DIR=" + directory.path(),
                 "OPENSSL_CONF=" + directory.file("openssl.cnf"), "LD_DEBUG=files",
                 "LD_DEBUG_OUTPUT=" + directory.file("loaded")});
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  const auto loaded = run_program({.argv = {"/bin/sh", "-c", "cat " + directory.file("loaded.*")}}).out;
  REQUIRE(says(loaded, "libc.so"));
  CHECK_FALSE(says(loaded, "chosen_by_library"));
  CHECK_FALSE(says(loaded, "chosen_by_openssl"));
}

TEST_CASE("without a user in the settings the account is the effective user's, whatever USER says",
          "[server][other-servers]") {
  DBLOCK_NEEDS(why_no_other_user());
  ServerDatabase database;
  constexpr uid_t k_nameless = 54321;
  for (const auto& [user, name] : {std::pair{k_nobody, "nobody"}, {k_nameless, "54321"}}) {
    const UsersHome home(user);
    const std::string url =
        "mysql://127.0.0.1:" + std::to_string(database.server().port) + "/" + database.name();
    const auto finished =
        run_program(home.spawn({"inspect"}, {"DBLOCK_DB=" + url, "USER=app", "LOGNAME=app", "LOGIN=app"}));
    INFO(finished.err);
    CHECK(finished.exit == exited(77));
    CHECK(says(finished.err, "'" + std::string(name) + "'@"));
  }
}

// Says of each name that there is no such host, and remembers it.
class NameServer {
 public:
  static constexpr const char* k_address = "127.53.53.53";
  NameServer() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(53);
    ::inet_pton(AF_INET, k_address, &address.sin_addr);
    works_ = ::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    thread_ = std::thread([this] { serve(); });
  }
  ~NameServer() {
    over_ = true;
    thread_.join();
    ::close(socket_);
  }
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;
  [[nodiscard]] bool works() const { return works_; }
  [[nodiscard]] std::string asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void serve() {
    while (!over_) {
      pollfd entry{socket_, POLLIN, 0};
      if (::poll(&entry, 1, 20) <= 0) continue;
      std::array<char, 512> packet{};
      sockaddr_in from{};
      socklen_t size = sizeof from;
      auto* const sender = reinterpret_cast<sockaddr*>(&from);
      const ssize_t n = ::recvfrom(socket_, packet.data(), packet.size(), 0, sender, &size);
      if (n < 12) continue;
      note(packet, static_cast<std::size_t>(n));
      packet[2] = static_cast<char>(0x81);  // an answer:
      packet[3] = static_cast<char>(0x83);  // no such name
      (void)!::sendto(socket_, packet.data(), static_cast<std::size_t>(n), 0, sender, size);
    }
  }
  // "\3www\7example\0", from the end of the header on.
  void note(const std::array<char, 512>& packet, std::size_t size) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 12; i < size && packet[i] != '\0'; ++i)
      asked_ += std::isprint(static_cast<unsigned char>(packet[i])) != 0 ? packet[i] : '.';
    asked_ += "\n";
  }

  int socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool works_ = false;
  std::atomic<bool> over_ = false;
  std::mutex mutex_;
  std::string asked_;
  std::thread thread_;
};

TEST_CASE("no variable makes the host's name another's", "[server]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  NameServer names;
  DBLOCK_NEEDS(names.works() ? "" : "no port 53 for a name server");
  const TempDir directory;
  write_file(directory.file("resolv.conf"), std::string("nameserver ") + NameServer::k_address + "\n");
  write_file(directory.file("nsswitch.conf"), "hosts: dns\n");
  write_file(directory.file("aliases"), "dbhost chosen-by-alias.example\n");
  const auto finished = in_mount_namespace(
      "mount --bind " + directory.file("resolv.conf") + " /etc/resolv.conf\n" + "mount --bind " +
          directory.file("nsswitch.conf") + " /etc/nsswitch.conf\n" + "$DBLOCK inspect\n",
      {"DBLOCK_DB=mysql://app@dbhost/d", "HOSTALIASES=" + directory.file("aliases"),
       "LOCALDOMAIN=chosen-by-domain.example", "RES_OPTIONS=ndots:3"});
  INFO(finished.err << names.asked());
  CHECK(finished.exit == exited(69));
  CHECK(says(names.asked(), ".dbhost\n"));
  CHECK_FALSE(says(names.asked(), "chosen-by"));
}

TEST_CASE("the job inherits the variables that dblock itself does not heed", "[server]") {
  const ServerDatabase database;
  const Words variables{"LIBMYSQL_PLUGINS=a", "MARIADB_PLUGIN_DIR=b", "OPENSSL_CONF=/dev/null",
                        "HOSTALIASES=d",      "LOCALDOMAIN=e",        "MYSQL_PWD=f"};
  const auto finished = dblock(database, run_words("k", {}, {"env"}), variables);
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  for (const auto& variable : variables) CHECK(says("\n" + finished.out, "\n" + variable + "\n"));
}

}  // namespace
}  // namespace dblock::test
