// Facts about processes, read from /proc.
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

  // "name (pid)", for people.
  [[nodiscard]] std::string display() const { return name + " (" + std::to_string(pid) + ")"; }

  // Ended, and not yet waited for. State Z alone does not say so: a process has it as soon as its first
  // thread has ended, while its other threads run on.
  [[nodiscard]] bool ended() const { return state == 'X' || (state == 'Z' && threads <= 1); }
};

// nullopt when there is no such process, or /proc does not tell.
[[nodiscard]] std::optional<ProcessInfo> process_info(pid_t pid);

// Opens /proc/`path` for reading; empty, with errno set, on failure.
[[nodiscard]] UniqueFd open_proc(const std::string& path);

// The blank-separated numbers in a file of /proc, from its beginning.
[[nodiscard]] std::vector<pid_t> numbers_in(const UniqueFd& file);

// The children of process `pid`, collected from the lists of all its threads.
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);

// A digest that no other process has, not even a later one with the same pid: 16 hexadecimal digits, made
// of boot id, pid namespace, pid and start time. Empty where /proc does not tell these.
[[nodiscard]] std::string process_digest(pid_t pid);

// The digests of the caller's ancestors, nearest first, as far as its pid namespace reaches.
[[nodiscard]] std::vector<std::string> ancestor_digests();

}  // namespace dblock::process
