// Looking at processes through /proc. Every spawned process carries a mark in its environment which all its
// descendants inherit, so a tree is found whole even after its parents died and whatever sessions it made.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace dblock::test {

inline constexpr const char* k_mark_variable = "TEST_TREE_MARK";

// Processes alive (zombies do not count) whose environment holds `mark`.
[[nodiscard]] std::vector<pid_t> processes_with_mark(const std::string& mark);

// Direct children, and all descendants, zombies excluded.
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);
[[nodiscard]] std::vector<pid_t> descendants_of(pid_t pid);

struct ProcInfo {
  std::string name;  // comm
  char state = 0;    // R, S, D, T, Z, …; 0 when there is no such process
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
};
[[nodiscard]] ProcInfo proc_info(pid_t pid);
[[nodiscard]] bool alive(pid_t pid);  // exists and is no zombie
// Those of the processes that have this name.
[[nodiscard]] std::vector<pid_t> named(const std::string& name, std::vector<pid_t> processes);

// When the last look began that found any of them alive, as last_seen_before() tells it.
[[nodiscard]] long long last_alive(const std::vector<pid_t>& processes);

// SIGSTOP, and the wait for it to arrive: kill() returns before the threads on other processors have noticed,
// and a server answers one more question meanwhile. Waits a second at the most, in case somebody wakes it at
// once; false then.
bool freeze(pid_t pid);

// How long the process has been ready to run while the machine ran others (/proc/PID/schedstat).
[[nodiscard]] std::chrono::nanoseconds kept_waiting_by_machine(pid_t pid);

// Targets of /proc/PID/fd/*, as "number -> target".
[[nodiscard]] std::vector<std::string> open_files(pid_t pid);
// A field of /proc/PID/status, for example "SigIgn".
[[nodiscard]] std::string status_field(pid_t pid, const std::string& name);

}  // namespace dblock::test
