// System calls that came with Linux 5.3, and that older container runtimes do not let through.
#pragma once

#include <string>
#include <string_view>

namespace dblock {

inline constexpr std::string_view k_pidfd_open = "pidfd_open";
inline constexpr std::string_view k_clone3 = "clone3";  // the C library starts threads with it

// As with_errno(), after one of these calls has failed with `err`: where that says that the call is missing
// or forbidden, the text names the kernel or the container's seccomp profile.
[[nodiscard]] std::string with_missing_call(const std::string& attempt, int err, std::string_view call);

}  // namespace dblock
