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
