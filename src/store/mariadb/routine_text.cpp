#include "store/mariadb/routine_text.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace dblock::store::mariadb {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::string_view k_spaces = " \t\r\n";
constexpr std::string_view k_end_of_comment = "*/";

// A run of words, outside comments or in a version comment, which begins with `comment`.
struct Part {
  std::string_view comment;
  Words words;
};

bool is_space(char c) {
  return k_spaces.find(c) != std::string_view::npos;
}

// The size of the literal or quoted name at the start of `text`. A backslash is an ordinary character here:
// no procedure of dblock has one, so a word with one is like none of theirs.
std::size_t quoted_size(std::string_view text) {
  return std::min(text.find(text.front(), 1), text.size() - 1) + 1;
}

// The size of the word at the start of `text`, which has no space outside quotes.
std::size_t word_size(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && !is_space(text[at]))
    at += text[at] == '\'' || text[at] == '"' || text[at] == '`' ? quoted_size(text.substr(at)) : 1;
  return at;
}

bool begins_line_comment(std::string_view text) {
  return text.starts_with("--") && (text.size() == 2 || is_space(text[2]));
}

bool begins_version_comment(std::string_view word) {
  return word.starts_with("/*!") || word.starts_with("/*M!");
}

// Splits a text into words without line comments; a version comment's words are a part of their own.
std::vector<Part> parts_of(std::string_view text) {
  std::vector<Part> parts(1);
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(k_spaces), text.size()));
    if (text.empty()) return parts;
    if (begins_line_comment(text)) {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
      continue;
    }
    const std::string_view word = text.substr(0, word_size(text));
    text.remove_prefix(word.size());
    if (begins_version_comment(word) || word == k_end_of_comment) {
      parts.push_back({word == k_end_of_comment ? "" : word, {}});
    } else {
      parts.back().words.push_back(word);
    }
  }
}

std::string_view body_of(std::string_view sql) {
  constexpr std::string_view k_begin = "\nBEGIN\n";
  return sql.substr(std::min(sql.find(k_begin), sql.size()));
}

// The words of a stored body. MySQL keeps comments for MariaDB, as it keeps all that it does not know; no
// server keeps another version comment. nullopt if there is one.
std::optional<Words> stored_words(std::string_view stored) {
  Words words;
  for (const auto& part : parts_of(stored)) {
    if (part.comment.starts_with("/*!")) return std::nullopt;
    if (part.comment.empty()) words.insert(words.end(), part.words.begin(), part.words.end());
  }
  return words;
}

// True also if one of them has a quote where the other has several: MySQL shows a doubled quote as one.
bool are_alike(std::string_view one, std::string_view other) {
  const auto next = [](std::string_view& word) {
    const char first = word.front();
    word.remove_prefix(first == '\'' ? std::min(word.find_first_not_of('\''), word.size()) : 1);
    return first;
  };
  while (!one.empty() && !other.empty())
    if (next(one) != next(other)) return false;
  return one.empty() && other.empty();
}

}  // namespace

bool is_body_of(std::string_view stored, std::string_view sql) {
  const auto found = stored_words(stored);
  if (!found) return false;
  auto at = found->begin();
  for (const auto& [comment, words] : parts_of(body_of(sql))) {
    const auto [missing, next] = std::mismatch(words.begin(), words.end(), at, found->end(), are_alike);
    const bool is_there = missing == words.end();
    if (!is_there && comment.empty()) return false;
    if (is_there) at = next;
  }
  return at == found->end();
}

}  // namespace dblock::store::mariadb
