#include "lease/pause.hpp"

#include "base/text.hpp"

namespace dblock::lease {
namespace {

// For people, without the fraction.
std::string in_seconds(ServerTime time) {
  return format_time(time).substr(0, 19) + "Z";
}

}  // namespace

bool PauseScope::covers(std::string_view key) const {
  return is_prefix ? key.starts_with(text) : key == text;
}

bool PauseScope::meets(const PauseScope& other) const {
  return covers(other.text) || other.covers(text);
}

std::string display_scope(const PauseScope& scope) {
  if (!scope.is_prefix) return "lock " + quote_untrusted(scope.text);
  if (scope.text.empty()) return "all locks";
  return "locks whose keys start with " + quote_untrusted(scope.text);
}

std::string display_pause(const Pause& pause) {
  std::string text = "paused until " + in_seconds(pause.until);
  if (!pause.by.empty()) text += " by " + escape_untrusted(pause.by);
  return pause.note.empty() ? text : text + ": " + escape_untrusted(pause.note);
}

}  // namespace dblock::lease
