// Arbitrary bytes as text, JSON, a shell's word, a duration, a time, a key and DBLOCK_HELD.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/duration.hpp"
#include "base/width.hpp"
#include "cli/options/values.hpp"
#include "cli/report/json.hpp"
#include "fuzz/fuzz.hpp"
#include "lease/held.hpp"
#include "lease/owner_id.hpp"
#include "lease/server_time.hpp"

namespace dblock::fuzz {
namespace {

// What escape_untrusted() was given.
std::string unescaped(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
    } else if (text[i + 1] == '\\') {
      bytes += text[++i];
    } else if (text[i + 1] == 'x') {
      bytes += static_cast<char>(std::stoul(std::string(text.substr(i + 2, 2)), nullptr, 16));
      i += 3;
    } else {
      const auto end = text.find('}', i);
      const auto c = std::stoul(std::string(text.substr(i + 3, end - i - 3)), nullptr, 16);
      const auto tail = [&](unsigned shift) { bytes += static_cast<char>(0x80U | (c >> shift & 0x3FU)); };
      if (c >= 0x10000) {
        bytes += static_cast<char>(0xF0U | c >> 18U);
        tail(12), tail(6), tail(0);
      } else if (c >= 0x800) {
        bytes += static_cast<char>(0xE0U | c >> 12U);
        tail(6), tail(0);
      } else {
        bytes += static_cast<char>(0xC0U | c >> 6U);
        tail(0);
      }
      i = end;
    }
  }
  return bytes;
}

// What a POSIX shell makes of the word: of its two forms, quoted text and printf's octal numbers.
std::string as_shell_reads(std::string_view word) {
  std::string bytes;
  constexpr std::string_view k_printf = "\"$(printf '%b' '";
  if (word.starts_with(k_printf)) {
    for (word.remove_prefix(k_printf.size()); word.starts_with("\\0"); word.remove_prefix(5))
      bytes += static_cast<char>(std::stoul(std::string(word.substr(2, 3)), nullptr, 8));
    while (bytes.ends_with('\n')) bytes.pop_back();  // as $(…) does
    demand(word == "')\"", "a word of the shell ends where it should", word);
    return bytes;
  }
  bool quoted = false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] == '\'') {
      quoted = !quoted;
    } else if (quoted) {
      bytes += word[i];
    } else {
      demand(word.substr(i, 2) == "\\'", "outside quotes a word holds only quotes", word);
      bytes += word[++i];
    }
  }
  demand(!quoted, "quotes are closed", word);
  return bytes;
}

void check_escaping(const std::string& text) {
  const std::string shown = escape_untrusted(text);
  demand(is_harmless(shown), "escaped text is harmless", text);
  demand(unescaped(shown) == text, "escaping loses nothing", text);
  demand(is_harmless(escape_message(text)), "an escaped message is harmless", text);
  demand(escape_message(shown) == shown, "what is escaped is not escaped again", text);
  demand(is_utf8(text) == well_formed(text), "the product and the standard agree on UTF-8", text);
  const bool no_word = text.find('\0') != std::string::npos || text.ends_with('\n');
  const std::string word = shell_quote(text);
  demand(is_harmless(word), "a word for the shell is harmless", text);
  if (!no_word) demand(as_shell_reads(word) == text, "the shell reads the same bytes", text);
}

void check_cuts(const std::string& text, std::size_t columns) {
  const std::string shown = escape_untrusted(text);
  const std::size_t width = display_width(shown);
  for (const std::string& cut : {cut_to_columns(shown, columns), cut_middle(shown, columns)}) {
    demand(display_width(cut) <= columns, "cut text fits", text);
    demand(well_formed(cut), "text is cut between characters", text);
    demand(width > columns || cut == shown, "what fits is not cut", text);
  }
  const std::string clean = clean_utf8(text, columns);
  demand(clean.size() <= columns && well_formed(clean), "clean text fits and is well formed", text);
  if (well_formed(text)) demand(text.starts_with(clean), "clean text is a front of the text", text);
}

void check_json(const std::string& text) {
  auto document = cli::json_document();
  document["text"] = text;
  const std::string line = cli::to_line(document);
  demand(std::ranges::count(line, '\n') == 1, "JSON is one line", text);
  demand(std::ranges::all_of(line, [](char c) { return c == '\n' || (c >= 0x20 && c < 0x7f); }),
         "JSON is plain ASCII", text);
  const auto read = nlohmann::json::parse(line, nullptr, false);
  demand(!read.is_discarded(), "JSON can be parsed", text);
  if (well_formed(text)) demand(read["text"] == text, "JSON gives the text back", text);
}

// The word of the input's end: what it was, besides text.
std::string_view check_values(const std::string& text) {
  std::string_view end = "text";
  if (const auto duration = parse_duration(text)) {
    const auto again = parse_duration(format_duration(*duration));
    demand(again && *again == *duration, "a duration reads back", text);
    demand(is_harmless(format_age(*duration)), "an age is harmless", text);
    end = "duration";
  }
  if (const auto time = lease::parse_time(text)) {
    demand(lease::parse_time(lease::format_time(*time)) == time, "a time reads back", text);
    end = "time";
  }
  if (const auto number = cli::parse_signal(text)) {
    demand(*number >= 1 && *number <= 64, "a signal's number is one", text);
    end = "signal";
  }
  const bool may_be_key =
      !text.empty() && text.size() <= 255 && well_formed(text) && !has_control_character(text);
  demand(lease::Key::parse(text).has_value() == may_be_key, "a key is 1 to 255 bytes of printable UTF-8",
         text);
  for (const auto& held : lease::parse_held(text)) {
    const auto again = lease::parse_held(lease::to_line(held));
    demand(again.size() == 1 && again[0].key == held.key && again[0].owner == held.owner &&
               again[0].store == held.store,
           "a held lock reads back", text);
    end = "held";
  }
  demand(is_harmless(lease::display_owner(text)), "an owner id is shown harmlessly", text);
  demand(lease::outermost({text}).text.size() <= text.size(), "an outer owner id is a part", text);
  demand(text.find(lease::digest_of(text)) != std::string::npos, "a digest is a part of its owner id", text);
  return end;
}

std::string_view run_text(Input input) {
  const unsigned number = input.number();
  const std::string text = input.rest();
  if (text.size() > 4096) return "too long";
  check_escaping(text);
  check_cuts(text, number % 300);
  check_json(text);
  // Any number may stand in a row.
  const auto odd = static_cast<std::int64_t>(std::hash<std::string>{}(text)) >> (number % 64);
  demand(is_harmless(format_age(Micros{odd})) && is_harmless(format_duration(Micros{odd})),
         "an age is harmless");
  demand(is_harmless(lease::format_time({Micros{odd}})), "a time is harmless");
  const std::vector<std::string> words{"acquire", "heartbeat", "release", "inspect"};
  const std::string near = nearest_word(text.substr(0, 64), words);
  demand(near.empty() || std::ranges::find(words, near) != words.end(), "the nearest word is one of them");
  return check_values(text);
}

}  // namespace
}  // namespace dblock::fuzz

DBLOCK_FUZZ_TARGET(text, dblock::fuzz::run_text)
