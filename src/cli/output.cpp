#include "cli/output.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>

namespace dblock::cli {
namespace {

// Blocks SIGPIPE and, at its end, discards a pending one. The disposition stays, because a job inherits it.
class HeldSigpipe {
 public:
  HeldSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  HeldSigpipe(const HeldSigpipe&) = delete;
  HeldSigpipe& operator=(const HeldSigpipe&) = delete;
  ~HeldSigpipe() {
    const timespec now{};
    sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace

Result<void> write_result(std::string_view text) {
  const HeldSigpipe held;
  while (!text.empty()) {
    const auto n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    const int fault = errno;
    if (n < 0 && fault == EINTR) continue;
    if (n < 0 && fault == EAGAIN) {  // another process that shares stdout made it non-blocking
      pollfd room{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&room, 1, -1);
      continue;
    }
    return fail(Errc::internal, with_errno("cannot write the result to stdout", fault),
                static_cast<unsigned>(fault));
  }
  return {};
}

bool wants_color(Color color, const Environment& environment) {
  if (color != Color::automatic) return color == Color::always;
  if (environment.get("NO_COLOR") || environment.get("TERM") == "dumb") return false;
  return ::isatty(STDOUT_FILENO) == 1;
}

std::size_t columns_of_stdout(const Environment& environment) {
  constexpr std::size_t k_usual_columns = 80;
  if (::isatty(STDOUT_FILENO) != 1) return 0;
  if (const auto wanted = environment.get("COLUMNS")) {
    std::size_t columns = 0;
    const auto [stop, fault] = std::from_chars(wanted->data(), wanted->data() + wanted->size(), columns);
    if (fault == std::errc{} && *stop == '\0' && columns > 0) return columns;
  }
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : k_usual_columns;
}

}  // namespace dblock::cli
