// Makes the standard descriptors safe, then hands the words of the command line to `cli`.
#include <fcntl.h>

#include "cli/dispatch.hpp"

namespace {

// Opens a stand-in for each missing standard descriptor: otherwise the next open() would get its number, and
// dblock's output could go into a database connection. A stand-in fails when used, as the missing descriptor
// would, and is not passed on to the job.
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
