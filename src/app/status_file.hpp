// --status-file: one JSON document about a run, written whole or not at all.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace dblock::app {

using WallTime = std::chrono::system_clock::time_point;

// Who had the run stopped, before it would have ended by itself.
struct StopRecord {
  std::string reason;  // signal, parent-ended, max-runtime, revoked, lost, deadline, guardian
  std::string signal;  // the first one: TERM
  bool terminal = false;
  std::optional<pid_t> pid;  // of the sender; of the process that has ended
  std::optional<uid_t> uid;
  bool killed = false;  // the job did not end in its grace
};

struct RunStatus {
  std::string outcome;  // succeeded, failed, signalled, timed_out, lost, held, skipped, interrupted, error
  int exit_code = 0;
  std::string key;
  std::optional<std::string> owner;
  std::optional<std::uint64_t> token;
  WallTime started_at;                  // dblock started
  std::optional<WallTime> acquired_at;  // by this host's wall clock
  std::optional<WallTime> ended_at;     // the job and its leftovers ended
  std::chrono::milliseconds waited{0};  // for a held lock
  std::optional<StopRecord> stop;
  std::string release = "none";  // none, released, unknown, expires (left to expire), lost
  std::string message;
};

// Written to a temporary file beside the target, mode 0600, and renamed into place: whole or not at all, and
// a symbolic link is replaced, not followed.
class StatusFile {
 public:
  // Proves that commit() will be able to write, before a lock is taken. Errc::config when it will not, or
  // when `path` is something that must not be replaced: a directory, a device, a pipe.
  [[nodiscard]] static Result<StatusFile> prepare(const std::string& path);

  [[nodiscard]] Result<void> commit(const RunStatus& status) const;

 private:
  explicit StatusFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace dblock::app
