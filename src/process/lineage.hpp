// Which process is which, beyond the pid: told apart by boot, pid namespace, pid and start time.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace dblock::process {

// 16 hexadecimal digits: a digest of the process's boot id, pid namespace, pid and start time. Empty where
// /proc does not tell.
[[nodiscard]] std::string process_mark(pid_t pid);

// Of the processes above the caller, nearest first, as far as its pid namespace reaches.
[[nodiscard]] std::vector<std::string> ancestor_marks();

}  // namespace dblock::process
