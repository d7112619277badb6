// DBLOCK_HELD: tells a job which locks it runs under, so that a `dblock run` inside the job can nest. A hint:
// the inner run asks the database before it believes an entry.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lease/lease.hpp"

namespace dblock::lease {

struct HeldLock {
  Key key;
  OwnerId owner;
  std::string store;  // as Settings display it: no password, and no blanks but spaces
};

// One lock a line, KEY TAB OWNER TAB STORE, the innermost last. Lines of another form are skipped.
[[nodiscard]] std::vector<HeldLock> parse_held(std::string_view text);
[[nodiscard]] std::string to_line(const HeldLock& held);

}  // namespace dblock::lease
