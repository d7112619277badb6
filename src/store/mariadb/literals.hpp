// Values from outside become SQL here and nowhere else: as hexadecimal literals, which no character set,
// quote or sql_mode can turn into anything but a value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace dblock::store::mariadb {

// x'6b': raw bytes, for VARBINARY columns.
[[nodiscard]] std::string bytes_literal(std::string_view bytes);

// _utf8mb4 x'6b': text for people; malformed parts replaced, at most `max_bytes` of it.
[[nodiscard]] std::string text_literal(std::string_view text, std::size_t max_bytes);

// INTERVAL n MICROSECOND.
[[nodiscard]] std::string interval(Micros length);

}  // namespace dblock::store::mariadb
