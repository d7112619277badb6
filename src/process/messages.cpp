#include "process/messages.hpp"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace dblock::process {

Message Message::with_text(MessageType type, std::string_view text) {
  Message message{type, 0, 0, {}};
  std::copy_n(text.begin(), std::min(text.size(), message.text.size() - 1), message.text.begin());
  return message;
}

Result<SocketPair> make_socket_pair(const std::string& peer) {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0)
    return fail(Errc::internal, with_errno("cannot make a socket pair for " + peer, errno));
  return SocketPair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

bool send_bytes(const UniqueFd& socket, const void* record, std::size_t size) noexcept {
  for (;;) {
    const ssize_t n = ::send(socket.get(), record, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n == static_cast<ssize_t>(size)) return true;
    if (n >= 0 || errno != EINTR) return false;
  }
}

Received receive_bytes(const UniqueFd& socket, void* record, std::size_t size) noexcept {
  for (;;) {
    const ssize_t n = ::recv(socket.get(), record, size, MSG_DONTWAIT);
    if (n == static_cast<ssize_t>(size)) return Received::message;
    // ECONNRESET: the peer ended without reading all our records. Its own last records come after this error.
    if (n < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    return n < 0 && errno == EAGAIN ? Received::nothing : Received::closed;
  }
}

void SharedState::extend_deadline(BootTime deadline) noexcept {
  const std::int64_t ns = deadline.time_since_epoch().count();
  std::int64_t seen = deadline_ns_.load(std::memory_order_relaxed);  // the exchange below checks it
  while (seen < ns && !deadline_ns_.compare_exchange_weak(seen, ns, std::memory_order_release,
                                                          std::memory_order_relaxed)) {
  }
}

std::optional<BootTime> SharedState::deadline() const noexcept {
  const std::int64_t ns = deadline_ns_.load(std::memory_order_acquire);
  if (ns == 0) return std::nullopt;
  return BootTime(Nanos(ns));
}

void SharedState::arm_release() noexcept {
  release_armed_.store(true, std::memory_order_release);
}

bool SharedState::release_armed() const noexcept {
  return release_armed_.load(std::memory_order_acquire);
}

void UnmapShared::operator()(SharedState* state) const noexcept {
  if (state != nullptr) ::munmap(state, sizeof *state);
}

Result<SharedPage> make_shared_page() {
  void* page =
      ::mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return fail(Errc::internal, with_errno("cannot map a page for the guardian", errno));
  return SharedPage(new (page) SharedState);
}

}  // namespace dblock::process
