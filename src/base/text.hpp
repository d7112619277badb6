// Makes untrusted text safe to show, and checks that text is well formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dblock {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t length = 0;  // bytes read; 0: malformed at this place
};

// The code point that starts `text`, which is not empty.
[[nodiscard]] CodePoint decode_utf8(std::string_view text);

// Without the white space at its ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// ASCII letters in lower case.
[[nodiscard]] std::string lower_case(std::string_view text);

// True for well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF).
[[nodiscard]] bool is_utf8(std::string_view bytes);

// True when a code point of well-formed UTF-8 `text` is a control character (C0, DEL, C1).
[[nodiscard]] bool has_control_character(std::string_view text);

// \x1b or \u{202e}.
[[nodiscard]] std::string escape_code_point(std::uint32_t c);

// For a terminal: control characters, malformed bytes, and characters that change the direction of text or
// show nothing become \x1b or \u{202e}; a backslash becomes \\. The result is well-formed UTF-8 on one line.
[[nodiscard]] std::string escape_untrusted(std::string_view text);

// The same between double quotes.
[[nodiscard]] std::string quote_untrusted(std::string_view text);

// A sentence of which parts may be escaped already: as escape_untrusted(), but backslashes stay.
[[nodiscard]] std::string escape_message(std::string_view message);

// Malformed bytes become U+FFFD; at most `max_bytes`, cut between code points.
[[nodiscard]] std::string clean_utf8(std::string_view text, std::size_t max_bytes);

// 'it'\''s': one word for any POSIX shell. Text that would be escaped on a terminal is spelled in octal, so
// that the word is safe to print and still means the same bytes.
[[nodiscard]] std::string shell_quote(std::string_view text);

// The nearest of `candidates` to `word` by edit distance, when near enough to be a likely slip; else empty.
[[nodiscard]] std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace dblock
