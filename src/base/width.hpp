// How many columns of a terminal well-formed text takes, whatever the locale.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dblock {

// In columns: accents and other combining characters take none, East Asian wide ones and emoji two.
[[nodiscard]] std::size_t display_width(std::string_view text);

// The front of `text` that takes at most `columns`, with … in place of what was cut off.
[[nodiscard]] std::string cut_to_columns(std::string_view text, std::size_t columns);

// Both ends of `text`, within `columns`, with … in place of what was cut out: names often differ at their
// ends.
[[nodiscard]] std::string cut_middle(std::string_view text, std::size_t columns);

}  // namespace dblock
