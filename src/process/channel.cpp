#include "process/channel.hpp"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace dblock::process {

Message Message::with_text(MessageType type, std::string_view text) {
  Message message{type, 0, 0, {}};
  std::copy_n(text.begin(), std::min(text.size(), message.text.size() - 1), message.text.begin());
  return message;
}

bool Channel::send(const Message& message) const noexcept {
  for (;;) {
    const ssize_t n = ::send(fd_.get(), &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n == static_cast<ssize_t>(sizeof message)) return true;
    if (n >= 0 || errno != EINTR) return false;
  }
}

Channel::Received Channel::receive(Message& message) const noexcept {
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), &message, sizeof message, MSG_DONTWAIT);
    if (n == static_cast<ssize_t>(sizeof message)) return Received::message;
    if (n >= 0) return Received::closed;
    if (errno == EAGAIN) return Received::nothing;
    if (errno != EINTR) return Received::closed;
  }
}

Result<ChannelPair> make_channel() {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0)
    return fail(Errc::internal, with_errno("cannot make a socket pair for the guardian", errno));
  return ChannelPair{Channel(UniqueFd(fds[0])), Channel(UniqueFd(fds[1]))};
}

void SharedState::extend_deadline(BootTime deadline) noexcept {
  const std::int64_t ns = deadline.time_since_epoch().count();
  std::int64_t seen = deadline_ns.load();
  while (seen < ns && !deadline_ns.compare_exchange_weak(seen, ns)) {
  }
}

std::optional<BootTime> SharedState::deadline() const noexcept {
  const std::int64_t ns = deadline_ns.load();
  if (ns == 0) return std::nullopt;
  return BootTime(Nanos(ns));
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
