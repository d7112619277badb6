// Owner ids: HOST-PID-TIME-MARK-RANDOM, e.g. web01-4711-20261121T124103Z-5d…(16 hexadecimal digits)-9f…(32).
// A nested acquisition's: OUTER/RANDOM.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "lease/lease.hpp"

namespace dblock::lease {

// `name` is the host, or DBLOCK_HOLDER's value. Anything but letters, digits, '.', '_', '-' and '@' becomes
// '_'; at most 64 bytes of it are used. The 128 random bits come from getrandom(2). `digest` tells the
// holder's process from others with the same pid; empty where it is not known.
// "user@host:pid" of an owner id that make_owner_id() has made; any other text as it is. Escaped.
[[nodiscard]] std::string display_owner(std::string_view owner);
[[nodiscard]] OwnerId make_owner_id(std::string_view name, std::uint32_t pid, std::time_t now,
                                    std::string_view digest = {});
// The digest that an owner id carries; empty where it carries none.
[[nodiscard]] std::string digest_of(std::string_view owner);

// A new owner id of an acquisition that nests in the lease of `outer`.
[[nodiscard]] OwnerId nested_owner_id(const OwnerId& outer);
[[nodiscard]] bool is_nested(const OwnerId& owner);
// The owner id of the lease in which a nested acquisition nests; any other owner id unchanged.
[[nodiscard]] OwnerId outermost(const OwnerId& owner);

}  // namespace dblock::lease
