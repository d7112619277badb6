// A port of this host that answers as little as a dead host: the queue of connections is full, so the kernel
// drops whatever asks for another.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace dblock::test {

class DeafPort {
 public:
  DeafPort() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    fds_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(fds_.front(), address, size) != 0 || ::listen(fds_.front(), 0) != 0 ||
        ::getsockname(fds_.front(), address, &size) != 0)
      throw std::runtime_error("no port to listen on");
    for (int i = 0; i < 4; ++i) {
      fds_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ::connect(fds_.back(), address, size);
    }
  }
  DeafPort(const DeafPort&) = delete;
  DeafPort& operator=(const DeafPort&) = delete;
  ~DeafPort() {
    for (const int fd : fds_) ::close(fd);
  }
  [[nodiscard]] int number() const { return ntohs(address_.sin_port); }

 private:
  sockaddr_in address_{};
  std::vector<int> fds_;
};

}  // namespace dblock::test
