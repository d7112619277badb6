#include <cstdio>
#include <string>

#include "base/text.hpp"
#include "support/catch.hpp"

namespace dblock {
namespace {

TEST_CASE("well formed utf-8 is told from malformed") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("á ключ 鍵 🔑"));
  CHECK_FALSE(is_utf8("\xff"));
  CHECK_FALSE(is_utf8("\xc0\xaf"));          // overlong
  CHECK_FALSE(is_utf8("\xe0\x80\xaf"));      // overlong
  CHECK_FALSE(is_utf8("\xed\xa0\x80"));      // surrogate
  CHECK_FALSE(is_utf8("\xf4\x90\x80\x80"));  // beyond U+10FFFF
  CHECK_FALSE(is_utf8("cut\xe2\x82"));
  CHECK_FALSE(is_utf8("\x80"));
}

TEST_CASE("control characters are found in every plane they live in") {
  CHECK(has_control_character("a\nb"));
  CHECK(has_control_character("a\x7f"));
  CHECK(has_control_character("\xc2\x85"));
  CHECK(has_control_character(std::string_view("a\0b", 3)));
  CHECK_FALSE(has_control_character("a á 🔑"));
}

TEST_CASE("untrusted text is escaped for a terminal") {
  CHECK(escape_untrusted("plain á") == "plain á");
  CHECK(escape_untrusted("\x1b[31m") == "\\x1b[31m");
  CHECK(escape_untrusted("a\r\nb") == "a\\x0d\\x0ab");
  CHECK(escape_untrusted("\xc2\x9b") == "\\u{9b}");
  CHECK(escape_untrusted("\xe2\x80\xae") == "\\u{202e}");
  CHECK(escape_untrusted("\xe2\x81\xa6") == "\\u{2066}");
  CHECK(escape_untrusted("\xff") == "\\xff");
  CHECK(escape_untrusted("\\") == "\\\\");
  CHECK(is_utf8(escape_untrusted("\xe2\x82 cut \xed\xa0\x80")));
}

std::string utf8(char32_t c) {
  const auto low = [](char32_t bits) { return static_cast<char>(0x80U | (bits & 0x3FU)); };
  if (c < 0x800) return {static_cast<char>(0xC0U | c >> 6U), low(c)};
  if (c < 0x10000) return {static_cast<char>(0xE0U | c >> 12U), low(c >> 6U), low(c)};
  return {static_cast<char>(0xF0U | c >> 18U), low(c >> 12U), low(c >> 6U), low(c)};
}

TEST_CASE("characters that show nothing are escaped, so that no two keys look the same") {
  for (const char32_t c :
       {0xAD,    0x34F,   0x61C,   0x115F,  0x1160,  0x17B4,  0x180B,  0x180E,  0x180F, 0x200B,
        0x200C,  0x200D,  0x200E,  0x200F,  0x2028,  0x2029,  0x202A,  0x202E,  0x2060, 0x2061,
        0x2064,  0x2066,  0x206F,  0x3164,  0xFE00,  0xFE0F,  0xFEFF,  0xFFA0,  0xFFF9, 0xFFFB,
        0x1BCA0, 0x1D173, 0x1D17A, 0xE0001, 0xE0020, 0xE007F, 0xE0100, 0xE01EF, 0xE0FFF}) {
    char expected[16];
    std::snprintf(expected, sizeof expected, "\\u{%x}", static_cast<unsigned>(c));
    INFO(expected);
    CHECK(escape_untrusted("k" + utf8(c)) == std::string("k") + expected);
    CHECK(escape_message("k" + utf8(c)) == std::string("k") + expected);
    CHECK(shell_quote("k" + utf8(c)).starts_with("\"$(printf "));
  }
  for (const char32_t c :
       {0xAC,   0xAE,   0x301,  0x34E,  0x600,  0x1100, 0x115E, 0x1161, 0x180A,  0x200A,
        0x2010, 0x205F, 0x2070, 0x3163, 0x3165, 0xFE10, 0xFF9F, 0xFFFC, 0x1F511, 0x1D172}) {
    CHECK(escape_untrusted(utf8(c)) == utf8(c));
  }
}

TEST_CASE("cleaned text is well formed and cut between code points") {
  CHECK(clean_utf8("a\xff", 10) == "a\xEF\xBF\xBD");
  CHECK(clean_utf8("áá", 3) == "á");
  CHECK(clean_utf8("abc", 2) == "ab");
  CHECK(clean_utf8("", 0).empty());
}

TEST_CASE("quoted words survive a shell") {
  CHECK(shell_quote("it's") == "'it'\\''s'");
  CHECK(shell_quote("a\\b") == "'a\\b'");
  CHECK(shell_quote("k\u202e") == "\"$(printf '%b' '\\0153\\0342\\0200\\0256')\"");  // nothing to hide in
  CHECK(shell_quote("") == "''");
  CHECK(shell_quote("$(rm) `x` \"y\"") == "'$(rm) `x` \"y\"'");
}

TEST_CASE("the nearest word is a likely slip or nothing") {
  const std::vector<std::string> words{"run", "acquire", "renew", "release", "inspect", "reap", "migrate"};
  CHECK(nearest_word("runn", words) == "run");
  CHECK(nearest_word("aquire", words) == "acquire");
  CHECK(nearest_word("relaese", words) == "release");
  CHECK(nearest_word("insp", words) == "inspect");
  CHECK(nearest_word("frobnicate", words).empty());
  CHECK(nearest_word("", words).empty());
}

}  // namespace
}  // namespace dblock
