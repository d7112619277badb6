#include "process/descriptors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace dblock::process {

void keep_only(std::vector<int> kept) {
  std::erase_if(kept, [](int fd) { return fd < 0; });
  std::ranges::sort(kept);
  unsigned first = 0;
  for (const int fd : kept) {
    const auto last = static_cast<unsigned>(fd);
    if (last > first) ::close_range(first, last - 1, 0);
    first = last + 1;
  }
  ::close_range(first, ~0U, 0);
  const int null = ::open("/dev/null", O_RDWR);  // becomes 0, the lowest free descriptor
  while (null >= 0 && ::dup(null) >= 0 && ::fcntl(2, F_GETFD) < 0) {
  }
}

}  // namespace dblock::process
