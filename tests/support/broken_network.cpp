// Preloaded into the servers of a replication group (group.hpp): between them, the network is broken where a
// file says so. Their clients reach them all the same.
//
// DBLOCK_TEST_NETWORK=FILE:NODE:PORT1:PORT2:PORT3 names the file, this server's number, and each node's port
// for the group. The file has a letter for each node. Where neither of two nodes has '-', all passes between
// them. '-': the node neither sends nor receives. '<': the node sends, and hears nothing: not even the
// answers to what it has sent.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "support/preloaded.hpp"

namespace {

using dblock::test::real;

constexpr int k_nodes = 3;

struct Network {
  const volatile char* letters = nullptr;  // of each node; nullptr: nothing is broken
  int node = 0;
  std::array<int, k_nodes + 1> ports{};
};

Network read_environment() {
  Network network;
  const char* told = std::getenv("DBLOCK_TEST_NETWORK");
  const char* const path_end = told == nullptr ? nullptr : std::strchr(told, ':');
  std::array<char, 256> path{};
  if (path_end == nullptr || path_end - told >= static_cast<long>(path.size())) return network;
  std::memcpy(path.data(), told, static_cast<std::size_t>(path_end - told));
  network.node = std::atoi(told = path_end + 1);
  for (int node = 1; node <= k_nodes && (told = std::strchr(told, ':')) != nullptr; ++node)
    network.ports[static_cast<std::size_t>(node)] = std::atoi(++told);
  const int file = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  void* const letters = ::mmap(nullptr, k_nodes, PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (letters != MAP_FAILED) network.letters = static_cast<const volatile char*>(letters);
  return network;
}

const Network& network() {
  static const Network the = read_environment();
  return the;
}

bool all_is_well() {
  const auto* const letters = network().letters;
  return letters == nullptr || (letters[0] == '+' && letters[1] == '+' && letters[2] == '+');
}

// The other node that this address is the port of, or 0.
int node_at(const sockaddr* address) {
  int port = 0;
  if (address->sa_family == AF_INET)
    port = ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);
  else if (address->sa_family == AF_INET6)
    port = ntohs(reinterpret_cast<const sockaddr_in6*>(address)->sin6_port);
  for (int node = 1; node <= k_nodes; ++node) {
    if (port != 0 && port == network().ports[static_cast<std::size_t>(node)])
      return node == network().node ? 0 : node;
  }
  return 0;
}

int node_behind(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  auto* const address = reinterpret_cast<sockaddr*>(&peer);
  return ::getpeername(fd, address, &length) == 0 ? node_at(address) : 0;
}

char letter_of(int node) {
  return network().letters[node - 1];
}

// All requests between two nodes go over connections that the sender has made, and the answers come back on
// them: so it is enough to break what a node sends to another's port, and what it hears from there.
bool cannot_send_to(int node) {
  return node != 0 && (letter_of(network().node) == '-' || letter_of(node) != '+');
}

bool cannot_hear(int node) {
  return node != 0 && (letter_of(network().node) != '+' || letter_of(node) == '-');
}

ssize_t broken() {
  errno = ECONNRESET;
  return -1;
}

}  // namespace

extern "C" {

int connect(int fd, const sockaddr* address, socklen_t length) {
  static auto* const system = real<int(int, const sockaddr*, socklen_t)>("connect");
  if (!all_is_well() && cannot_send_to(node_at(address))) {
    errno = ENETUNREACH;
    return -1;
  }
  return system(fd, address, length);
}

ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  static auto* const system = real<ssize_t(int, const void*, size_t, int)>("send");
  if (!all_is_well() && cannot_send_to(node_behind(fd))) return broken();
  return system(fd, bytes, size, flags);
}

ssize_t recv(int fd, void* bytes, size_t size, int flags) {
  static auto* const system = real<ssize_t(int, void*, size_t, int)>("recv");
  if (!all_is_well() && cannot_hear(node_behind(fd))) return broken();
  return system(fd, bytes, size, flags);
}

// With TLS, which newer servers use between members.
ssize_t write(int fd, const void* bytes, size_t size) {
  static auto* const system = real<ssize_t(int, const void*, size_t)>("write");
  if (!all_is_well() && cannot_send_to(node_behind(fd))) return broken();
  return system(fd, bytes, size);
}

ssize_t read(int fd, void* bytes, size_t size) {
  static auto* const system = real<ssize_t(int, void*, size_t)>("read");
  if (!all_is_well() && cannot_hear(node_behind(fd))) return broken();
  return system(fd, bytes, size);
}

}  // extern "C"
