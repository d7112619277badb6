// What `doctor` asks of a store: does what it finds there deserve trust?
#pragma once

#include <string>
#include <vector>

#include "store/config/settings.hpp"

namespace dblock::store {

enum class Level { ok, warn, bad };

// One judgement. `found` and `message` may hold text from the server and are untrusted.
struct Finding {
  std::string check;  // "read-only"
  Level level = Level::ok;
  std::string found;    // what is there; empty where that is not known
  std::string message;  // why that is good or bad, and what to do
  std::string host;     // of a list of hosts; empty where the check is about all of them, or none
};

// Looks at each host of the settings, or at the file, and changes nothing there. Never fails: what cannot be
// reached is a finding. Blocks within the connect timeout and a few seconds for each host.
[[nodiscard]] std::vector<Finding> examine(const Settings& settings);

}  // namespace dblock::store
