#include "base/error.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dblock {

std::string with_errno(const std::string& attempt, int err) {
  return attempt + ": " + strerrordesc_np(err);
}

void die(const char* attempt) {
  const std::string line = "dblock: exit 70 (internal): " + with_errno(attempt, errno) + "\n";
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(70);
}

}  // namespace dblock
