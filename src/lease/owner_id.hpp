// Owner ids: HOST-PID-TIME-RANDOM, e.g. web01-4711-20261121T124103Z-9f…(32 hexadecimal digits).
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "lease/types.hpp"

namespace dblock::lease {

// `name` is the host, or DBLOCK_HOLDER's value. Anything but letters, digits, '.', '_', '-' and '@' becomes
// '_'; at most 64 bytes of it are used. The 128 random bits come from getrandom(2).
[[nodiscard]] OwnerId make_owner_id(std::string_view name, std::uint32_t pid, std::time_t now);

}  // namespace dblock::lease
