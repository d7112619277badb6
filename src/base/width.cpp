#include "base/width.hpp"

#include <locale.h>
#include <wchar.h>

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"

namespace dblock {
namespace {

// Uses the C library's tables, in a locale of our own: the environment's may know no UTF-8. The tables are
// loaded only for text beyond Latin letters.
std::size_t columns_of(std::uint32_t c) {
  if (c < 0x0300) return 1;
  static const locale_t k_utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (k_utf8 == nullptr) return 1;  // no such locale on this host: columns may be misaligned
  const locale_t before = ::uselocale(k_utf8);
  const int columns = ::wcwidth(static_cast<wchar_t>(c));
  ::uselocale(before);
  return columns < 0 ? 1 : static_cast<std::size_t>(columns);  // below 0: a character unknown to the tables
}

// A character with the combining characters after it: accents stay with their letter.
struct Cluster {
  std::size_t bytes = 0;
  std::size_t columns = 0;
};

Cluster first_cluster(std::string_view text) {
  Cluster cluster;
  while (cluster.bytes < text.size()) {
    const auto c = decode_utf8(text.substr(cluster.bytes));
    const std::size_t columns = columns_of(c.value);
    if (cluster.bytes > 0 && columns > 0) break;
    cluster.columns += columns;
    cluster.bytes += std::max<std::size_t>(c.length, 1);
  }
  return cluster;
}

// How many bytes at the front of `text` fit into `columns`.
std::size_t front_of(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto next = first_cluster(text.substr(at));
    if (next.columns > columns) break;
    columns -= next.columns;
    at += next.bytes;
  }
  return at;
}

// Where the part of `text` begins that is left when it is cut at the front until it fits into `columns`.
std::size_t end_of(std::string_view text, std::size_t columns) {
  std::size_t width = display_width(text);
  std::size_t at = 0;
  while (width > columns) {
    const auto next = first_cluster(text.substr(at));
    width -= next.columns;
    at += next.bytes;
  }
  return at;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const auto next = first_cluster(text);
    columns += next.columns;
    text.remove_prefix(next.bytes);
  }
  return columns;
}

std::string cut_to_columns(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  return std::string(text.substr(0, front_of(text, columns - 1))) + "…";
}

std::string cut_middle(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  const std::size_t front = columns / 2;
  return std::string(text.substr(0, front_of(text, front))) + "…" +
         std::string(text.substr(end_of(text, columns - 1 - front)));
}

}  // namespace dblock
