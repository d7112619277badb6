// --status-file: one JSON document about a run, written whole or not at all.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace dblock::app {

using WallTime = std::chrono::system_clock::time_point;

struct RunStatus {
  std::string outcome;  // succeeded, failed, signalled, timed_out, lost, held, interrupted, error
  int exit_code = 0;
  std::string key;
  std::optional<std::string> owner;
  std::optional<std::uint64_t> token;
  WallTime started_at;                  // dblock started
  std::optional<WallTime> acquired_at;  // by this host's wall clock
  std::optional<WallTime> ended_at;     // the job and its leftovers ended
  std::string release = "none";         // none, released, unknown, expires (left to expire), lost
  std::string message;
};

// The file is made beside the target as a temporary, mode 0600, when the run starts, so that an unwritable
// place is found before a lock is taken; commit() renames it into place, which replaces a symbolic link
// instead of following it. Without commit() nothing stays.
class StatusFile {
 public:
  [[nodiscard]] static Result<StatusFile> prepare(const std::string& path);  // Errc::config
  StatusFile(StatusFile&& other) noexcept;
  StatusFile& operator=(StatusFile&&) = delete;
  ~StatusFile();

  [[nodiscard]] Result<void> commit(const RunStatus& status);

 private:
  StatusFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  std::string path_;
  std::string temporary_;
  int fd_;
};

}  // namespace dblock::app
