// Only this function and render() (verbs.hpp) turn values from outside into SQL. They write hexadecimal
// literals, which no character set, quote or sql_mode can turn into anything but a value.
#pragma once

#include <string>
#include <string_view>

namespace dblock::store::mariadb {

// x'6b' for "k".
[[nodiscard]] std::string bytes_literal(std::string_view bytes);

}  // namespace dblock::store::mariadb
