// --status-file: one JSON document about a run, written whole or not at all.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "app/words/ending.hpp"
#include "base/error.hpp"

namespace dblock::app {

using WallTime = std::chrono::system_clock::time_point;

// What the document says of a run beside its ending.
struct RunStatus {
  std::string key;
  std::optional<std::string> owner;
  std::optional<std::uint64_t> token;
  WallTime started_at;                  // dblock started
  std::optional<WallTime> acquired_at;  // by this host's wall clock
  std::optional<WallTime> ended_at;     // the job and its leftovers ended
  std::chrono::milliseconds waited{0};  // for a held lock
  std::uint64_t attempts = 0;           // how often the job was started
  std::optional<bool> overdue;          // the job ran for longer than expected; none: nothing was expected
  std::string release = "none";         // none, released, unknown, expires (left to expire), lost
};

// The JSON document.
[[nodiscard]] std::string status_document(const RunStatus& status, const Ending& ending);

// Writes to a temporary file beside the target, mode 0600, and renames that into place: so the document is
// written whole or not at all, and a symbolic link is replaced, not followed.
class StatusFile {
 public:
  // Proves that commit() will be able to write, before a lock is taken. Errc::config when commit() could not,
  // or when `path` must not be replaced: a directory, a device, a pipe.
  [[nodiscard]] static Result<StatusFile> prepare(const std::string& path);

  // Errc::config when the document could not be written.
  [[nodiscard]] Result<void> commit(const std::string& document) const;

 private:
  explicit StatusFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace dblock::app
