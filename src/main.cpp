// Parse, dispatch, exit.
#include <fcntl.h>

#include "cli/dispatch.hpp"

namespace {

// A missing standard descriptor would be taken by the next open(), and dblock's words would go into a
// database connection. The stand-ins fail when used, as the missing ones would, and do not reach the job.
bool fill_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    if (::open("/dev/null", (fd == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC) != fd) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (!fill_standard_descriptors()) return 70;
  return dblock::cli::dispatch(argc, argv);
}
