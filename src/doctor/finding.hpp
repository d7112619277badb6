// What `doctor` says about one thing that it looked at.
#pragma once

#include <string>

namespace dblock::doctor {

enum class Level { ok, warn, bad };

// One judgement. `found` and `message` may hold text from the server and are untrusted.
struct Finding {
  std::string check;  // "read-only"
  Level level = Level::ok;
  std::string found;    // what is there; empty: not known
  std::string message;  // why that is good or bad, and what to do
  std::string host;     // one of several hosts; empty: a single host, or no one host
};

}  // namespace dblock::doctor
