#include "base/stderr_writer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "base/open_again.hpp"

namespace dblock::log {
namespace {

constexpr std::size_t k_usual_columns = 80;

// Blocks SIGPIPE and SIGTTOU in this thread: neither may end or stop a process that holds a lease. The
// dispositions stay as they are, because the job inherits them.
class QuietSignals {
 public:
  QuietSignals() {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGPIPE);
    sigaddset(&both, SIGTTOU);
    sigset_t pending;
    sigpending(&pending);
    pipe_was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &both, &before_);
  }
  QuietSignals(const QuietSignals&) = delete;
  QuietSignals& operator=(const QuietSignals&) = delete;
  ~QuietSignals() {
    if (!pipe_was_pending_) {
      sigset_t pipe_only;
      sigemptyset(&pipe_only);
      sigaddset(&pipe_only, SIGPIPE);
      const timespec now{};
      sigtimedwait(&pipe_only, nullptr, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_{};
  bool pipe_was_pending_ = false;
};

}  // namespace

bool StderrWriter::OpenFile::is_open_as(int fd) const {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_dev == device && info.st_ino == inode;
}

StderrWriter::StderrWriter() {
  struct stat info {};
  if (::fstat(STDERR_FILENO, &info) != 0) return;
  stderr_ = own_ = OpenFile(info);
  fd_ = STDERR_FILENO;
  if (S_ISSOCK(info.st_mode)) {
    how_ = How::send;
  } else if (S_ISFIFO(info.st_mode) || (S_ISCHR(info.st_mode) && ::isatty(STDERR_FILENO) == 1)) {
    how_ = How::ask_first;
    UniqueFd own = open_again(STDERR_FILENO, O_WRONLY | O_NONBLOCK);
    struct stat own_info {};
    if (!own || ::fstat(own.get(), &own_info) != 0) return;
    fd_ = own.release();
    own_ = OpenFile(own_info);
    how_ = How::plain;
    own_terminal_ = S_ISCHR(info.st_mode);
  } else {
    how_ = How::plain;
  }
}

bool StderrWriter::put(const std::string& line) {
  if (!still_ours() && !opened_anew()) return false;
  const QuietSignals quiet;
  if (how_ == How::send) return ::send(fd_, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
  pollfd room{fd_, POLLOUT, 0};
  if (how_ == How::ask_first && (::poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0)) return false;
  return ::write(fd_, line.data(), line.size()) > 0;
}

bool StderrWriter::commands_terminal() const {
  return own_terminal_ && still_ours() && ::tcgetpgrp(fd_) == ::getpgrp();
}

std::size_t StderrWriter::columns() const {
  winsize size{};
  return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : k_usual_columns;
}

bool StderrWriter::opened_anew() {
  if (fd_ == STDERR_FILENO || !stderr_.is_open_as(STDERR_FILENO)) return false;
  *this = StderrWriter();
  return how_ != How::nowhere;
}

}  // namespace dblock::log
