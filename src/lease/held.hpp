// What a job is told of the locks it runs under, for runs of its own: DBLOCK_HELD. A hint: whoever finds
// himself in it asks the database before he believes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lease/types.hpp"

namespace dblock::lease {

struct HeldLock {
  Key key;
  OwnerId owner;
  std::string store;  // as Settings display it: no password, and no blanks but spaces
};

// One lock a line, KEY TAB OWNER TAB STORE, the innermost last. Lines of another form are passed over.
[[nodiscard]] std::vector<HeldLock> parse_held(std::string_view text);
[[nodiscard]] std::string to_line(const HeldLock& held);

}  // namespace dblock::lease
