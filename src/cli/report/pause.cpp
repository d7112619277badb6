// Reports of pause and resume.
#include <utility>

#include "cli/report/json.hpp"
#include "cli/report/report.hpp"

namespace dblock::cli {
namespace {

Json pause_or_null(const std::optional<lease::Pause>& pause) {
  return pause ? json_pause(*pause) : Json(nullptr);
}

// `before` stands before "paused until".
std::string line_of(const lease::Pause& pause, std::string_view before) {
  return lease::display_scope(pause.scope) + ": " + std::string(before) + lease::display_pause(pause) + "\n";
}

}  // namespace

std::string report_paused(const lease::Paused& paused, const OutputOptions& output) {
  if (output.json) {
    auto document = json_document();
    document["action"] = "paused";
    document["pause"] = json_pause(paused.pause);
    document["replaced"] = pause_or_null(paused.replaced);
    return to_line(document);
  }
  std::string text = line_of(paused.pause, "");
  if (paused.replaced) text += line_of(*paused.replaced, "was ");
  return text;
}

std::string report_resumed(const lease::Resumed& resumed, const lease::PauseScope& scope,
                           const OutputOptions& output) {
  if (output.json) {
    auto document = json_document();
    document["action"] = resumed.ended ? "resumed" : "not_paused";
    document["ended"] = pause_or_null(resumed.ended);
    document["left"] = Json::array();
    for (const auto& pause : resumed.left) document["left"].push_back(json_pause(pause));
    return to_line(document);
  }
  std::string text = resumed.ended ? line_of(*resumed.ended, "resumed; was ")
                                   : lease::display_scope(scope) + ": not paused\n";
  for (const auto& pause : resumed.left) text += line_of(pause, "still ");
  return text;
}

}  // namespace dblock::cli
