#include "support/packets.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace dblock::test {
namespace {

constexpr unsigned char k_greeting = 0x0a;
constexpr unsigned char k_offers_tls = 0x08;      // in the second byte of what a greeting's server can
constexpr std::uint32_t k_more_results = 0x0008;  // a flag of the server's status

std::size_t after_number(const std::string& packet, std::size_t at) {
  switch (static_cast<unsigned char>(packet.at(at))) {
    case 0xfc:
      return at + 3;
    case 0xfd:
      return at + 4;
    case 0xfe:
      return at + 9;
    default:
      return at + 1;
  }
}

}  // namespace

std::uint32_t little_endian(const std::string& bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

std::string take_packet(std::string& stream) {
  if (stream.size() < k_packet_header) return "";
  const std::size_t size = k_packet_header + little_endian(stream, 0, 3);
  if (stream.size() < size) return "";
  std::string packet = stream.substr(0, size);
  stream.erase(0, size);
  return packet;
}

void hide_tls(std::string& greeting) {
  if (greeting.size() <= k_packet_header) return;
  if (static_cast<unsigned char>(greeting[k_packet_header]) != k_greeting) return;
  const auto end_of_version = greeting.find('\0', k_packet_header);
  constexpr std::size_t k_id_and_challenge = 13;
  const std::size_t at = end_of_version + k_id_and_challenge + 2;
  if (end_of_version == std::string::npos || at >= greeting.size()) return;
  greeting[at] = static_cast<char>(static_cast<unsigned char>(greeting[at]) & ~k_offers_tls);
}

bool send_all(int fd, const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t done = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (done <= 0) return false;
    sent += static_cast<std::size_t>(done);
  }
  return true;
}

int connect_unix(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

int listen_on_loopback(int& port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener, 64) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("the proxy cannot listen");
  port = ntohs(address.sin_port);
  return listener;
}

bool ReplyEnd::is_last(const std::string& packet, bool without_eof) {
  const std::size_t size = packet.size() - k_packet_header;
  const unsigned char first = size == 0 ? 0 : static_cast<unsigned char>(packet[k_packet_header]);
  const bool end_mark = first == 0xfe && (size < 9 || without_eof);
  switch (part_) {
    case Part::first:
      if (first == 0x00) return ends_reply(packet, false);
      if (first >= 0xfb) return true;  // an error, a wish for a file
      columns_ = first;                // more than 250 of them nobody asks for
      part_ = Part::columns;
      return false;
    case Part::columns:
      if (--columns_ == 0) part_ = without_eof ? Part::rows : Part::columns_end;
      return false;
    case Part::columns_end:
      part_ = Part::rows;
      return false;
    case Part::rows:
      if (end_mark) return ends_reply(packet, !without_eof);
      return first == 0xff;
  }
  return true;
}

// A packet that ends one result. An old EOF packet has the number of warnings before the status, an OK packet
// two numbers of variable length.
bool ReplyEnd::ends_reply(const std::string& packet, bool old_eof) {
  const std::size_t numbers = k_packet_header + 1;
  const std::size_t status = old_eof ? numbers + 2 : after_number(packet, after_number(packet, numbers));
  if (packet.size() < status + 2 || (little_endian(packet, status, 2) & k_more_results) == 0) return true;
  part_ = Part::first;
  return false;
}

const char* to_string(Harm harm) {
  switch (harm) {
    case Harm::none:
      return "nothing done";
    case Harm::cut_before:
      return "cut before";
    case Harm::cut_after:
      return "cut after";
    case Harm::late:
      return "late";
    case Harm::twice:
      return "twice";
  }
  return "";
}

std::vector<HarmedPacket> cuts_of(const std::vector<Packet>& packets, bool each) {
  const auto goes_on =
      [&](std::size_t i) {  // packet i of the server is followed by another of the same reply
        return i + 1 < packets.size() && !packets[i].from_client && !packets[i + 1].from_client &&
               packets[i].connection == packets[i + 1].connection;
      };
  std::vector<HarmedPacket> cuts;
  std::size_t connections = 0;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const bool begins = packets[i].connection == connections;
    if (begins) ++connections;
    if (begins || packets[i].from_client) cuts.push_back({Harm::cut_before, i});
    const bool is_third_or_later = i >= 2 && goes_on(i - 2) && goes_on(i - 1);
    if (each || !is_third_or_later || !goes_on(i)) cuts.push_back({Harm::cut_after, i});
  }
  return cuts;
}

}  // namespace dblock::test
