// How a store uses its database: what the process that opens it needs.
#pragma once

#include <chrono>

#include "base/clock.hpp"

namespace dblock::store {

struct SessionOptions {
  std::chrono::seconds network_timeout{10};  // read and write timeout of every network call
  Micros idle_timeout{0};   // the server may drop this session when idle longer; zero: the server's default
  bool reads_only = false;  // nothing will be written: a read-only server will do
  // A holder's renewal that has no answer for this long is given up; zero: as every call.
  Micros renewal_timeout{0};
};

}  // namespace dblock::store
