// What /proc tells of processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace dblock::process {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';  // as in /proc/PID/stat; '?' where /proc hides the process (hidepid)
  std::uint64_t threads = 0;
  std::uint64_t start_ticks = 0;  // since boot
  std::string name;

  // Ended, and not yet waited for. A process whose first thread has ended looks like it, but its others live.
  [[nodiscard]] bool ended() const { return state == 'X' || (state == 'Z' && threads <= 1); }
};

// nullopt when there is no such process, or /proc does not tell.
[[nodiscard]] std::optional<ProcessInfo> process_info(pid_t pid);

// A file of /proc; empty where it is not to be had.
[[nodiscard]] UniqueFd open_proc(const std::string& path);

// The blank-separated numbers in a file of /proc, from its beginning.
[[nodiscard]] std::vector<pid_t> numbers_in(const UniqueFd& file);

// The children of any process: each of its threads has a list.
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);

// Tells a process from all others, also from later ones with its pid: 16 hexadecimal digits, a digest of its
// boot id, pid namespace, pid and start time. Empty where /proc does not tell.
[[nodiscard]] std::string process_mark(pid_t pid);

// Of the processes above the caller, nearest first, as far as its pid namespace reaches.
[[nodiscard]] std::vector<std::string> ancestor_marks();

}  // namespace dblock::process
