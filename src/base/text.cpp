#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <utility>

namespace dblock {
namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

bool is_control(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F);
}

// Characters that reorder or break the text around them, or show nothing, so that a row could fake what a
// terminal shows, or two keys look the same: Default_Ignorable_Code_Point of the Unicode character database,
// line separators, and the marks of annotations.
constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 17> k_misleading{{
    {0x00AD, 0x00AD},
    {0x034F, 0x034F},
    {0x061C, 0x061C},
    {0x115F, 0x1160},
    {0x17B4, 0x17B5},
    {0x180B, 0x180F},
    {0x200B, 0x200F},
    {0x2028, 0x202E},
    {0x2060, 0x206F},
    {0x3164, 0x3164},
    {0xFE00, 0xFE0F},
    {0xFEFF, 0xFEFF},
    {0xFFA0, 0xFFA0},
    {0xFFF0, 0xFFFB},
    {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A},
    {0xE0000, 0xE0FFF},
}};

bool misleads_terminal(std::uint32_t c) {
  return std::ranges::any_of(k_misleading,
                             [c](const auto& range) { return range.first <= c && c <= range.second; });
}

// A byte that is no character.
std::string hex_byte(char c) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text.data();
}

// Optimal string alignment: insertions, deletions, substitutions and swapped neighbours count one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t swap_in = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + swap_in});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view k_blank = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(k_blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(k_blank) - first + 1);
}

CodePoint decode_utf8(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  std::size_t length = 0;
  std::uint32_t value = 0;
  std::uint32_t least = 0;  // anything below is an overlong form
  if ((lead & 0xE0U) == 0xC0U) {
    length = 2, value = lead & 0x1FU, least = 0x80;
  } else if ((lead & 0xF0U) == 0xE0U) {
    length = 3, value = lead & 0x0FU, least = 0x800;
  } else if ((lead & 0xF8U) == 0xF0U) {
    length = 4, value = lead & 0x07U, least = 0x10000;
  } else {
    return {};
  }
  if (text.size() < length) return {};
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return {};
    value = (value << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < least || value > 0x10FFFF || surrogate) return {};
  return {value, length};
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto c = decode_utf8(bytes);
    if (c.length == 0) return false;
    bytes.remove_prefix(c.length);
  }
  return true;
}

bool has_control_character(std::string_view text) {
  while (!text.empty()) {
    const auto c = decode_utf8(text);
    if (c.length != 0 && is_control(c.value)) return true;
    text.remove_prefix(std::max<std::size_t>(c.length, 1));
  }
  return false;
}

std::string escape_code_point(std::uint32_t c) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), c < 0x80 ? "\\x%02x" : "\\u{%x}", static_cast<unsigned>(c));
  return text.data();
}

std::string escape_untrusted(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto c = decode_utf8(text);
    if (c.length == 0) {
      out += hex_byte(text[0]);
      text.remove_prefix(1);
      continue;
    }
    if (c.value == '\\') {
      out += "\\\\";
    } else if (is_control(c.value) || misleads_terminal(c.value)) {
      out += escape_code_point(c.value);
    } else {
      out.append(text.substr(0, c.length));
    }
    text.remove_prefix(c.length);
  }
  return out;
}

std::string quote_untrusted(std::string_view text) {
  return "\"" + escape_untrusted(text) + "\"";
}

std::string escape_message(std::string_view message) {
  std::string out;
  for (;;) {
    const auto end = message.find('\\');
    out += escape_untrusted(message.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '\\';
    message.remove_prefix(end + 1);
  }
}

std::string clean_utf8(std::string_view text, std::size_t max_bytes) {
  constexpr std::string_view k_replacement = "\xEF\xBF\xBD";
  std::string out;
  while (!text.empty()) {
    const auto c = decode_utf8(text);
    const auto piece = c.length == 0 ? k_replacement : text.substr(0, c.length);
    if (out.size() + piece.size() > max_bytes) break;
    out.append(piece);
    text.remove_prefix(std::max<std::size_t>(c.length, 1));
  }
  return out;
}

std::string shell_quote(std::string_view text) {
  std::string quoted;
  std::string octal;
  for (const char c : text) {
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
    std::array<char, 8> code{};
    std::snprintf(code.data(), code.size(), "\\0%03o", static_cast<unsigned>(static_cast<unsigned char>(c)));
    octal += code.data();
  }
  if (escape_message(text) == text) return "'" + quoted + "'";
  return "\"$(printf '%b' '" + octal + "')\"";
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  // A third of the letters wrong is still a slip of the fingers; more is another word.
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string nearest;
  for (const auto& candidate : candidates) {
    const bool abbreviated = word.size() >= 3 && candidate.starts_with(word);
    const auto distance = abbreviated ? 1 : edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace dblock
