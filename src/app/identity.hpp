// Names the holder, for the row of a lock and for the owner id; and recognizes holders near this process.
#pragma once

#include <sys/types.h>

#include <string>

#include "app/requests.hpp"
#include "lease/lock_status.hpp"

namespace dblock::app {

// Host, user and note as other users will see them. `identity.display_name` replaces "user@host" (containers
// have random host names). `pid`: the process that a person should look for.
[[nodiscard]] lease::Holder make_holder(const Identity& identity, std::uint32_t pid, std::string command);

// "user@host" of this process, or what replaces it: who pauses or revokes.
[[nodiscard]] std::string account_on_host(const Identity& identity);

// A new owner id for this acquisition.
[[nodiscard]] lease::OwnerId new_owner_id(const lease::Holder& holder);

// True when a run that this process is part of keeps the lock from it. That run waits for this process to
// end, so this process must not wait for the lock. Reads /proc at the first call.
[[nodiscard]] bool blocked_by_ancestor(const lease::LockStatus& status);

// True when the holder is the script that this process is part of: the script's `acquire` left DBLOCK_OWNER
// in the environment.
[[nodiscard]] bool held_by_own_script(const lease::LockStatus& status);

// The account's name by /etc/passwd alone, else its number: no directory server is asked.
[[nodiscard]] std::string account_name(uid_t id);

// The program that process `pid` runs, "" when that cannot be read.
[[nodiscard]] std::string program_of(std::uint32_t pid);

}  // namespace dblock::app
