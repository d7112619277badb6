// Waiters and their places in the line of a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lease/lease.hpp"
#include "lease/server_time.hpp"

namespace dblock::lease {

// Which runs may wait for a lock.
enum class Line {
  fifo,    // all, in the order of their arrival
  one,     // one: a run that finds a waiting run leaves
  newest,  // the newest: a waiting run leaves when another begins to wait
};

// A process or application that waits. Text is untrusted.
struct Waiter {
  std::string host;
  std::uint32_t pid = 0;  // 0: not known, as of an application
  std::string user;
  ServerTime since;  // when its request was first refused: its arrival
};

// A request's row in the line of a lock.
struct Place {
  std::string key;  // raw bytes
  OwnerId owner;
  Sharing sharing{};
  Line line = Line::fifo;
  Waiter waiter;
  ServerTime counts_until{};
  bool waits_elsewhere = false;  // for other locks too: this one may stay free before it
};

// A request's place among those that wait for a lock.
struct LinePosition {
  std::size_t number = 1;  // 1: the first waiter
  std::size_t of = 1;      // how many wait
};

[[nodiscard]] std::string_view to_string(Line line);

}  // namespace dblock::lease
