// What the fuzz targets share. A target is one function that feeds an input to the product and ends the
// process where a promise is broken. With libFuzzer (DBLOCK_FUZZ) it is a program of its own; without,
// fuzz_replay feeds the corpus to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"

namespace dblock::fuzz {

// Reads an input from its front. Behind its end everything is 0 or empty.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t byte() { return static_cast<std::uint8_t>(bytes(1)[0]); }
  unsigned number() {
    const unsigned high = byte();
    return high << 8U | byte();
  }
  // `count` bytes, filled up with zeros.
  std::string bytes(std::size_t count) {
    std::string taken(rest_.substr(0, count));
    rest_.remove_prefix(taken.size());
    taken.resize(count);
    return taken;
  }
  // Up to `end`, which is taken too, or all.
  std::string until(char end) {
    const auto at = rest_.find(end);
    std::string taken(rest_.substr(0, at));
    rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at + 1);
    return taken;
  }
  std::string rest() { return bytes(rest_.size()); }

 private:
  std::string_view rest_;
};

// Ends the process unless `kept`. `promise`: a sentence; `seen`: what broke it.
inline void demand(bool kept, std::string_view promise, std::string_view seen = {}) {
  if (kept) return;
  std::fprintf(stderr, "broken: %s: %s\n", std::string(promise).c_str(), escape_untrusted(seen).c_str());
  std::abort();
}

// Well-formed UTF-8 by table 3-7 of the Unicode standard, without the product's help.
[[nodiscard]] inline bool well_formed(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t n) {
      return i + n < text.size() ? static_cast<std::uint8_t>(text[i + n]) : std::uint8_t{0};
    };
    const std::uint8_t lead = at(0);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    const std::uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const std::uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (lead < 0xC2 || lead > 0xF4 || at(1) < least || at(1) > most) return false;
    for (std::size_t n = 2; n < length; ++n)
      if (at(n) < 0x80 || at(n) > 0xBF) return false;
    i += length;
  }
  return true;
}

// What a terminal may be shown: well-formed, no control characters but those in `allowed`, nothing that turns
// the direction of text or shows nothing.
[[nodiscard]] inline bool is_harmless(std::string_view text, std::string_view allowed = "") {
  if (!well_formed(text)) return false;
  for (std::string_view hidden :
       {"\u061c", "\u200b", "\u200e", "\u200f", "\u2028", "\u202a", "\u202e", "\u2066", "\u2069", "\ufeff"})
    if (text.find(hidden) != std::string_view::npos) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<std::uint8_t>(text[i]);
    const bool c1 = c == 0xC2 && static_cast<std::uint8_t>(text[i + 1]) < 0xA0;
    const bool tag = text.substr(i).starts_with("\xf3\xa0");  // U+E0000 to U+E0FFF
    if (c1 || tag || ((c < 0x20 || c == 0x7F) && allowed.find(text[i]) == std::string_view::npos))
      return false;
  }
  return true;
}

// The word says what became of the input; the replay counts the words, so that a corpus that has gone stale
// (everything is refused at its door) is seen.
using Run = std::string_view (*)(Input input);
struct Target {
  std::string_view name;
  Run run;
};
[[nodiscard]] inline std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

}  // namespace dblock::fuzz

#ifdef DBLOCK_FUZZ
#define DBLOCK_FUZZ_TARGET(name, function)                                            \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    function(dblock::fuzz::Input({reinterpret_cast<const char*>(data), size}));       \
    return 0;                                                                         \
  }
#else
#define DBLOCK_FUZZ_TARGET(name, function)                  \
  [[maybe_unused]] static const bool name##_is_known = [] { \
    dblock::fuzz::targets().push_back({#name, function});   \
    return true;                                            \
  }();
#endif
