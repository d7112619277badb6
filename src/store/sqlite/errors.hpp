// The one place that turns SQLite's result codes into dblock's errors.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

struct sqlite3;

namespace dblock::store::sqlite {

// The step that failed.
enum class Phase {
  read,   // a statement that changes nothing
  write,  // a statement that changes rows: an I/O error leaves its outcome unknown
};

// Another process blocks the store for a moment; nothing was done.
[[nodiscard]] bool is_busy(int code);

// Makes the error "cannot acquire lock "k" in sqlite:/path: <words>; <what to do>". `handle` may be null.
[[nodiscard]] Error make_error(std::string_view attempt, std::string_view where, sqlite3* handle, int code,
                               Phase phase);

}  // namespace dblock::store::sqlite
