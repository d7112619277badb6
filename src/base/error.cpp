#include "base/error.hpp"

#include <cstring>

namespace dblock {

std::string with_errno(const std::string& attempt, int err) {
  return attempt + ": " + strerrordesc_np(err);
}

}  // namespace dblock
