#include "base/missing_call.hpp"

#include <cerrno>

#include "base/error.hpp"

namespace dblock {

std::string with_missing_call(const std::string& attempt, int err, std::string_view call) {
  std::string text = with_errno(attempt, err);
  const std::string name(call);
  if (err == EPERM)
    return text + "; does a container's seccomp profile forbid " + name + "? Update the container's runtime";
  if (err != ENOSYS) return text;
  return text + "; " + name + " needs Linux 5.3, and a container's seccomp profile that lets it through";
}

}  // namespace dblock
