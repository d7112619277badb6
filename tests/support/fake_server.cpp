#include "support/fake_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "support/packets.hpp"

namespace dblock::test {
namespace {

using namespace std::string_literals;

constexpr int k_patience_ms = 5000;

std::size_t length_of(const std::string& header) {
  std::size_t length = 0;
  for (std::size_t i = 3; i-- > 0;) length = length << 8U | static_cast<unsigned char>(header[i]);
  return length;
}

}  // namespace

bool Wire::fill(std::size_t wanted) {
  while (pending_.size() < wanted) {
    pollfd entry{fd_, POLLIN, 0};
    if (::poll(&entry, 1, k_patience_ms) <= 0) return false;
    char bytes[4096];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    pending_.append(bytes, static_cast<std::size_t>(got));
    heard_.append(bytes, static_cast<std::size_t>(got));
  }
  return true;
}

std::optional<std::string> Wire::receive() {
  if (!fill(k_packet_header)) return std::nullopt;
  const std::size_t size = k_packet_header + length_of(pending_);
  if (!fill(size)) return std::nullopt;
  number_ = static_cast<unsigned char>(pending_[3]);
  ++number_;
  std::string payload = pending_.substr(k_packet_header, size - k_packet_header);
  pending_.erase(0, size);
  last_ = payload;
  return payload;
}

void Wire::send(const std::string& payload) {
  const auto size = payload.size();
  std::string packet;
  for (unsigned shift = 0; shift < 24; shift += 8) packet += static_cast<char>(size >> shift & 0xffU);
  packet += static_cast<char>(number_++);
  send_raw(packet + payload);
}

void Wire::send_raw(const std::string& bytes) const {
  (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void Wire::greet(const std::string& plugin) {
  number_ = 0;
  // Protocol 10, version, thread, challenge, what it can (LOCAL FILES, but not TLS), utf8mb4, the rest of the
  // challenge, the way to log in.
  send("\x0a"s + "10.11.19-MariaDB\0"s + "\x01\0\0\0"s + "abcdefgh\0"s + "\xff\xf7"s + "\x2d"s + "\x02\0"s +
       "\xff\x80"s + "\x15"s + std::string(10, '\0') + "ijklmnopqrst\0"s + plugin + "\0"s);
}

void Wire::ok(char affected_rows) {
  const auto sized = [](const std::string& text) { return static_cast<char>(text.size()) + text; };
  const std::string variable = "last_insert_id";
  const auto at = last_.find(variable + "=");
  if (at == std::string::npos) return send("\0"s + affected_rows + "\x01\x02\0\0\0"s);
  const std::string number = last_.substr(at + variable.size() + 1);
  const std::string change =
      sized(variable) + sized(number.substr(0, number.find_first_not_of("0123456789")));
  // A flag says that the session tells of changes; then no warnings, no words, and of variables (0) this one.
  send("\0"s + affected_rows + "\x01\x02\x40\0\0\0"s + sized("\0"s + sized(change)));
}

bool Wire::let_in() {
  greet();
  if (!receive()) return false;
  ok();
  return true;
}

FakeServer::FakeServer(Talk talk) : talk_(std::move(talk)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 8) != 0 ||
      ::getsockname(listener_, generic, &size) != 0)
    throw std::runtime_error("no fake server");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

std::string FakeServer::url(const std::string& user, const std::string& parameters) const {
  return "mysql://" + user + "@127.0.0.1:" + std::to_string(port_) + "/d" + parameters;
}

void FakeServer::stop() {
  if (!thread_.joinable()) return;
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

void FakeServer::serve() {
  std::vector<std::thread> talks;
  for (int fd = 0; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
    talks.emplace_back([this, fd] { converse(fd); });
  for (auto& talk : talks) talk.join();
}

void FakeServer::converse(int fd) {
  Wire wire(fd);
  talk_(wire);
  ::close(fd);
  const std::lock_guard lock(mutex_);
  heard_ += wire.heard();
}

std::string file_request(const std::string& file) {
  return "\xfb"s + file;
}

std::string plugin_request(const std::string& plugin) {
  return "\xfe"s + plugin + "\0abcdefghijklmnopqrst\0"s;
}

}  // namespace dblock::test
