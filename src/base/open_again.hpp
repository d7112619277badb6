#pragma once

#include "base/unique_fd.hpp"

namespace dblock {

// Opens the pipe or terminal behind `fd` once more, for this process alone: O_NONBLOCK on `fd` itself would
// reach all processes that share it. After su(1) the terminal is another user's and may not be opened by its
// path; if it is this process's controlling terminal, /dev/tty stands for it. Empty if neither can be opened.
[[nodiscard]] UniqueFd open_again(int fd, int flags);

}  // namespace dblock
