// How the log reaches stderr, whatever that is.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>

namespace dblock::log {

// Writes lines to stderr without blocking. O_NONBLOCK belongs to the open file description, which the job
// shares on descriptor 2. So pipes and terminals are opened once more, for dblock alone.
class StderrWriter {
 public:
  StderrWriter();

  // False when nothing of `line` was written.
  bool put(const std::string& line);

  // True for a terminal on which no write can block and whose foreground is ours.
  [[nodiscard]] bool commands_terminal() const;

  [[nodiscard]] std::size_t columns() const;

 private:
  enum class How { nowhere, plain, ask_first, send };

  // The file that a descriptor is open on.
  struct OpenFile {
    OpenFile() = default;
    explicit OpenFile(const struct stat& info) : device(info.st_dev), inode(info.st_ino) {}
    [[nodiscard]] bool is_open_as(int fd) const;
    dev_t device = 0;
    ino_t inode = 0;
  };

  // A forked process may have closed every descriptor and opened others under the same numbers; a line must
  // not end up in a database connection.
  [[nodiscard]] bool still_ours() const { return how_ != How::nowhere && own_.is_open_as(fd_); }

  // Opens stderr once more in a forked process that has closed every other descriptor.
  bool opened_anew();

  How how_ = How::nowhere;
  bool own_terminal_ = false;
  int fd_ = -1;
  OpenFile stderr_;
  OpenFile own_;  // behind fd_: what stderr is open on, or /dev/tty
};

}  // namespace dblock::log
