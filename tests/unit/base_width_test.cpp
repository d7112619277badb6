#include <locale.h>

#include <string>

#include "base/width.hpp"
#include "support/catch.hpp"

namespace dblock {
namespace {

const std::string k_accent = "\xcc\x81";  // combining

TEST_CASE("text is cut to a terminal's columns") {
  CHECK(cut_to_columns("abcdef", 6) == "abcdef");
  CHECK(cut_to_columns("abcdef", 5) == "abcd…");
  CHECK(cut_to_columns("abcdef", 1) == "…");
  CHECK(cut_to_columns("abcdef", 0).empty());
  CHECK(cut_to_columns("", 0).empty());
  CHECK(cut_to_columns("áéíóú", 5) == "áéíóú");
  CHECK(cut_to_columns("áéíóú", 4) == "áéí…");
  CHECK(cut_to_columns("鍵鍵鍵", 6) == "鍵鍵鍵");  // two columns each
  CHECK(cut_to_columns("鍵鍵鍵", 5) == "鍵鍵…");
  CHECK(cut_to_columns("鍵鍵鍵", 4) == "鍵…");
  CHECK(cut_to_columns("🔑🔑", 3) == "🔑…");
  CHECK(cut_to_columns("e\xcc\x81"
                       "e\xcc\x81",
                       2) ==
        "e\xcc\x81"
        "e\xcc\x81");  // combining accents
  CHECK(cut_to_columns("e\xcc\x81"
                       "e\xcc\x81",
                       1) == "…");
}

TEST_CASE("the width of text is what a terminal makes of it") {
  CHECK(display_width("") == 0);
  CHECK(display_width("plain") == 5);
  CHECK(display_width("áéíóú") == 5);
  CHECK(display_width("e" + k_accent + "e" + k_accent) == 2);
  CHECK(display_width("鍵") == 2);
  CHECK(display_width("한글") == 4);
  CHECK(display_width("ｆｕｌｌ") == 8);
  CHECK(display_width("ﾊﾝｶｸ") == 4);
  CHECK(display_width("🔑") == 2);
  CHECK(display_width("✓…") == 2);  // no emoji, though their neighbours are
  CHECK(display_width("✅⭐") == 4);
  CHECK(display_width("क्ष") == 2);  // a vowel killer takes no room
  CHECK(display_width("a\xe2\x80\x8b"
                      "b") == 2);  // nor does a space without width
  CHECK(display_width("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb") == 4);  // joined emoji: at most
}

TEST_CASE("the width of text does not depend on the locale, and leaves it as it was") {
  const locale_t own = ::newlocale(LC_ALL_MASK, "C", nullptr);
  const locale_t before = ::uselocale(own);
  CHECK(display_width("鍵" + k_accent) == 2);
  CHECK(::uselocale(before) == own);
  ::freelocale(own);
}

TEST_CASE("text is cut in its middle") {
  CHECK(cut_middle("abcdef", 6) == "abcdef");
  CHECK(cut_middle("abcdef", 5) == "ab…ef");
  CHECK(cut_middle("abcdef", 4) == "ab…f");
  CHECK(cut_middle("abcdef", 2) == "a…");
  CHECK(cut_middle("abcdef", 1) == "…");
  CHECK(cut_middle("abcdef", 0).empty());
  CHECK(cut_middle("鍵鍵鍵", 5) == "鍵…鍵");
  CHECK(cut_middle("鍵鍵鍵", 4) == "鍵…");  // half a character is none
  CHECK(cut_middle("ab" + k_accent + "cde" + k_accent, 4) == "ab" + k_accent + "…e" + k_accent);
  CHECK(cut_middle("abcde" + k_accent, 3) == "a…e" + k_accent);
  for (std::size_t columns = 0; columns < 12; ++columns) {
    CHECK(display_width(cut_middle("a鍵e" + k_accent + "🔑bé鍵", columns)) <= columns);
  }
}

}  // namespace
}  // namespace dblock
