#include "process/guardian/guardian_starter.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>

#include "process/messages.hpp"

namespace dblock::process {
namespace {

// A message of one byte that carries two descriptors. Memory for the message is aligned as the system wants.
struct Parcel {
  std::array<int, 2> fds{};
  char byte = 0;
  iovec content{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  msghdr message{.msg_name = nullptr,
                 .msg_namelen = 0,
                 .msg_iov = &content,
                 .msg_iovlen = 1,
                 .msg_control = control.data(),
                 .msg_controllen = control.size(),
                 .msg_flags = 0};
};

bool send_ends(const UniqueFd& channel, const GuardianEnds& ends) {
  Parcel parcel;
  parcel.fds = {ends.socket.get(), ends.gate.get()};
  cmsghdr* const header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof parcel.fds);
  std::memcpy(CMSG_DATA(header), parcel.fds.data(), sizeof parcel.fds);
  return ::sendmsg(channel.get(), &parcel.message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

// Blocks; nullopt when dblock has ended. No descriptors have come where this process may open no more.
std::optional<GuardianEnds> receive_ends(const UniqueFd& channel) {
  for (;;) {
    Parcel parcel;
    const ssize_t size = ::recvmsg(channel.get(), &parcel.message, MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return std::nullopt;
    const cmsghdr* const header = CMSG_FIRSTHDR(&parcel.message);
    if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof parcel.fds)) continue;
    std::memcpy(parcel.fds.data(), CMSG_DATA(header), sizeof parcel.fds);
    return GuardianEnds{UniqueFd(parcel.fds[0]), UniqueFd(parcel.fds[1])};
  }
}

// dblock, the next subreaper, is to be the guardian's parent before it hears of the guardian.
void await_other_parent(pid_t present) {
  while (::getppid() == present) {
    const timespec moment{0, 100'000};
    ::nanosleep(&moment, nullptr);
  }
}

}  // namespace

Result<GuardianStarter> GuardianStarter::fork(const std::function<void(GuardianEnds ends)>& become_guardian) {
  DBLOCK_TRY(SocketPair pair, make_socket_pair("the guardian"));
  const pid_t pid = ::fork();
  if (pid < 0)
    return fail(Errc::internal, with_errno("cannot fork the process that starts guardians", errno) +
                                    "; too many processes (ulimit -u)?");
  if (pid > 0) return GuardianStarter(std::move(pair.first), pid);
  ::prctl(PR_SET_NAME, "dblock-starter");
  pair.first.reset();
  while (auto ends = receive_ends(pair.second)) {
    const pid_t between = ::fork();
    if (between == 0) {
      const pid_t self = ::getpid();
      if (::fork() != 0) ::_exit(0);
      pair.second.reset();
      await_other_parent(self);
      become_guardian(std::move(*ends));
    }
    if (between > 0) ::waitpid(between, nullptr, 0);
  }
  ::_exit(0);
}

GuardianStarter::~GuardianStarter() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool GuardianStarter::start(const GuardianEnds& ends) const {
  return pid_ > 0 && send_ends(channel_, ends);
}

}  // namespace dblock::process
