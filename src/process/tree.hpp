// The descendants of this process: finding them, stopping them, reaping them. Complete because the caller is
// a child subreaper: whoever loses its parent becomes our child, so "no child left" means "nobody left". Not
// thread-safe; call from the thread that does all waiting.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace dblock::process {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';               // as in /proc/PID/stat; Z is a zombie
  std::uint64_t start_ticks = 0;  // since boot
  std::string name;
};

// nullopt when there is no such process, or /proc does not tell.
[[nodiscard]] std::optional<ProcessInfo> process_info(pid_t pid);

// Every living or dead-but-unreaped descendant of `root` (not itself), from one pass over /proc.
[[nodiscard]] std::vector<ProcessInfo> descendants(pid_t root);

// Called for every child that was waited for.
using OnReaped = std::function<void(pid_t pid, int wait_status)>;

// Waits for every child that has ended, without blocking. True when no child is left at all (ECHILD).
bool reap_ended(const OnReaped& on_reaped);

// Sends SIGKILL to all descendants and waits for them, again and again, since a dying process may have
// forked, until none is left (true) or `give_up` has come (false: not ours to kill, or in uninterruptible
// sleep).
bool kill_all(BootTime give_up, const OnReaped& on_reaped);

// The same for all but one child and those whom it has still to wait for, which stay zombies; waits for
// nobody itself.
void kill_all_but(pid_t spared, BootTime give_up);

}  // namespace dblock::process
