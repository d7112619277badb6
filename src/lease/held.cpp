#include "lease/held.hpp"

#include <utility>

namespace dblock::lease {
namespace {

// Removes the front of `text` up to `end`, and `end` itself. RETURNS: that front, without `end`.
std::string_view take_until(std::string_view& text, char end) {
  const auto at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

}  // namespace

std::vector<HeldLock> parse_held(std::string_view text) {
  std::vector<HeldLock> held;
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    auto key = Key::parse(take_until(line, '\t'));
    const std::string_view owner = take_until(line, '\t');
    if (!key || owner.empty() || line.empty()) continue;
    held.push_back({std::move(*key), {std::string(owner)}, std::string(line)});
  }
  return held;
}

std::string to_line(const HeldLock& held) {
  return held.key.bytes() + "\t" + held.owner.text + "\t" + held.store;
}

}  // namespace dblock::lease
