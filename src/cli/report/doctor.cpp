// Report of doctor.
#include <algorithm>
#include <string_view>

#include "base/text.hpp"
#include "cli/report/json.hpp"
#include "cli/report/report.hpp"

namespace dblock::cli {
namespace {

using doctor::Finding;
using doctor::Level;

std::string_view word_of(Level level) {
  switch (level) {
    case Level::ok:
      return "ok";
    case Level::warn:
      return "warn";
    case Level::bad:
      return "bad";
  }
  return "bad";
}

std::string_view color_of(Level level) {
  switch (level) {
    case Level::ok:
      return "\x1b[32m";
    case Level::warn:
      return "\x1b[33m";
    case Level::bad:
      break;
  }
  return "\x1b[31m";
}

std::string painted(Level level, bool color) {
  const std::string word(word_of(level));
  return color ? std::string(color_of(level)) + word + "\x1b[0m" : word;
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ') + "  ";
}

struct Widths {
  std::size_t host = 0;
  std::size_t check = 0;
};

Widths widths_of(const std::vector<Finding>& findings) {
  Widths widths;
  for (const auto& finding : findings) {
    widths.host = std::max(widths.host, escape_untrusted(finding.host).size());
    widths.check = std::max(widths.check, finding.check.size());
  }
  return widths;
}

std::string line_of(const Finding& finding, const Widths& widths, bool color) {
  std::string line = painted(finding.level, color) + std::string(6 - word_of(finding.level).size(), ' ');
  if (widths.host > 0) line += padded(escape_untrusted(finding.host), widths.host);
  line += padded(finding.check, widths.check) + escape_untrusted(finding.found);
  if (!finding.found.empty() && !finding.message.empty()) line += ": ";
  line += escape_untrusted(finding.message);
  while (line.ends_with(' ')) line.pop_back();
  return line + "\n";
}

std::string count_of(const std::vector<Finding>& findings, Level level) {
  const auto count = std::ranges::count(findings, level, &Finding::level);
  return std::to_string(count) + " " + std::string(word_of(level));
}

std::string doctor_json(const app::DoctorReport& report) {
  auto document = json_document();
  document["verdict"] = word_of(report.verdict);
  document["checks"] = Json::array();
  for (const auto& finding : report.findings) {
    document["checks"].push_back({{"name", finding.check},
                                  {"host", text_or_null(finding.host)},
                                  {"level", word_of(finding.level)},
                                  {"found", text_or_null(finding.found)},
                                  {"message", text_or_null(escape_message(finding.message))}});
  }
  return to_line(document);
}

}  // namespace

std::string report_doctor(const app::DoctorReport& report, const OutputOptions& output, bool color) {
  if (output.json) return doctor_json(report);
  const Widths widths = widths_of(report.findings);
  std::string text;
  for (const auto& finding : report.findings) text += line_of(finding, widths, color);
  return text + "verdict: " + painted(report.verdict, color) + " (" + count_of(report.findings, Level::ok) +
         ", " + count_of(report.findings, Level::warn) + ", " + count_of(report.findings, Level::bad) + ")\n";
}

}  // namespace dblock::cli
