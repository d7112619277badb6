#include "store/mariadb/literals.hpp"

#include "base/text.hpp"

namespace dblock::store::mariadb {

std::string bytes_literal(std::string_view bytes) {
  constexpr std::string_view k_digits = "0123456789abcdef";
  std::string literal = "x'";
  literal.reserve(3 + 2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    literal += k_digits[byte >> 4U];
    literal += k_digits[byte & 0x0fU];
  }
  literal += '\'';
  return literal;
}

std::string text_literal(std::string_view text, std::size_t max_bytes) {
  return "_utf8mb4 " + bytes_literal(clean_utf8(text, max_bytes));
}

std::string interval(Micros length) {
  return "INTERVAL " + std::to_string(length.count()) + " MICROSECOND";
}

}  // namespace dblock::store::mariadb
