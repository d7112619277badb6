// A server that is not what it seems: it asks the client for a local file instead of answering.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "support/dblock.hpp"

namespace dblock::test {
namespace {

// Speaks just enough of the protocol to let anyone log in, then answers every command with "send me FILE".
// Collects all the client sends after that.
class RogueServer {
 public:
  explicit RogueServer(std::string file) : file_(std::move(file)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener_, 8) == 0);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~RogueServer() { stop(); }
  RogueServer(const RogueServer&) = delete;
  RogueServer& operator=(const RogueServer&) = delete;

  [[nodiscard]] std::string url() const { return "mysql://app@127.0.0.1:" + std::to_string(port_) + "/d"; }
  void stop() {
    if (!thread_.joinable()) return;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  [[nodiscard]] const std::string& received() const { return received_; }  // after stop()
  [[nodiscard]] int asked() const { return asked_; }

 private:
  static void send_packet(int fd, unsigned char sequence, const std::string& payload) {
    std::string packet{static_cast<char>(payload.size() & 0xffU), static_cast<char>(payload.size() >> 8U),
                       '\0', static_cast<char>(sequence)};
    packet += payload;
    (void)::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL);
  }
  static std::string receive(int fd) {
    char bytes[65536];
    pollfd entry{fd, POLLIN, 0};
    if (::poll(&entry, 1, 3000) <= 0) return "";
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    return got <= 0 ? "" : std::string(bytes, static_cast<std::size_t>(got));
  }
  void serve() {
    for (int fd = 0; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; ::close(fd))
      converse(fd);
  }
  void converse(int fd) {
    using namespace std::string_literals;
    // Protocol 10, version, thread, scramble, capabilities with LOCAL FILES, utf8mb4, native password.
    send_packet(fd, 0,
                "\x0a"s + "10.11.19-MariaDB\0"s + "\x01\0\0\0"s + "abcdefgh\0"s + "\xff\xf7"s + "\x2d"s +
                    "\x02\0"s + "\x0f\x80"s + "\x15"s + std::string(10, '\0') + "ijklmnopqrst\0"s +
                    "mysql_native_password\0"s);
    if (receive(fd).empty()) return;
    send_packet(fd, 2, "\0\0\0\x02\0\0\0"s);
    while (!receive(fd).empty()) {
      ++asked_;
      send_packet(fd, 1, "\xfb"s + file_);
      received_ += receive(fd);
      send_packet(fd, 3, "\0\0\0\x02\0\0\0"s);
    }
  }

  std::string file_, received_;
  int listener_ = -1, port_ = 0, asked_ = 0;
  std::thread thread_;
};

TEST_CASE("a server that asks for a local file gets nothing", "[server]") {
  const TempDir directory;
  write_file(directory.file("secret"), "the-content-of-a-local-file\n");
  RogueServer rogue(directory.file("secret"));
  for (const Words& words : {run_words("k", {}, {"true"}), Words{"inspect"}, Words{"migrate"}}) {
    const auto finished = dblock_bare(words, {"DBLOCK_DB=" + rogue.url()});
    INFO(finished.err);
    CHECK(finished.exit != exited(0));
  }
  rogue.stop();
  CHECK(rogue.asked() > 0);
  CHECK(rogue.received().find("the-content-of") == std::string::npos);
}

}  // namespace
}  // namespace dblock::test
