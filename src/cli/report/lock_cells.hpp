// Cells of the table of inspect that show more, or other words, than the value of a field (private to the
// report files).
#pragma once

#include "cli/report/table.hpp"
#include "lease/lock_status.hpp"

namespace dblock::cli {

// By the colour of its state.
[[nodiscard]] Cell key_cell(const lease::LockStatus& lock);
[[nodiscard]] Cell state_cell(const lease::LockStatus& lock);
// The holder, and whether it is a reader or has a slot. REQUIRES, for this one and the next two: there is a
// holder.
[[nodiscard]] Cell holder_cell(const lease::LockStatus& lock);
// How long the holder has had the lock.
[[nodiscard]] Cell held_cell(const lease::LockStatus& lock);
// When the lease ends. Red if it has expired or is revoked; yellow if the holder's last renewal is more than
// two heartbeats old.
[[nodiscard]] Cell expiry_cell(const lease::LockStatus& lock);
// How the last run ended, and how long ago. REQUIRES: there was one.
[[nodiscard]] Cell last_run_cell(const lease::LockStatus& lock);

}  // namespace dblock::cli
