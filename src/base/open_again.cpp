#include "base/open_again.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <string>

namespace dblock {
namespace {

// The number of the terminal that `fd` is open on; through /dev/tty too, whose own number is another. 0:
// none.
unsigned device_of_terminal(int fd) {
  unsigned device = 0;
  return ::ioctl(fd, TIOCGDEV, &device) == 0 ? device : 0;
}

}  // namespace

UniqueFd open_again(int fd, int flags) {
  UniqueFd own(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), flags | O_CLOEXEC | O_NOCTTY));
  if (own) return own;
  const unsigned device = device_of_terminal(fd);
  own.reset(::open("/dev/tty", flags | O_CLOEXEC | O_NOCTTY));
  if (device == 0 || device_of_terminal(own.get()) != device) own.reset();
  return own;
}

}  // namespace dblock
