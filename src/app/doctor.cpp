// `dblock doctor`: does this configuration deserve trust? Changes nothing.
#include "doctor/doctor.hpp"

#include <algorithm>
#include <optional>

#include "app/silence_watch.hpp"
#include "app/use_cases.hpp"

namespace dblock::app {
namespace {

using doctor::Finding;
using doctor::Level;

Ending ending_of(const std::vector<Finding>& findings) {
  std::string bad;
  for (const auto& finding : findings) {
    if (finding.level != Level::bad) continue;
    bad += (bad.empty() ? "" : ", ") + finding.check;
    if (!finding.host.empty()) bad += " of " + finding.host;
  }
  if (bad.empty()) return {};
  return {.how = Ending::How::unfit, .message = "this configuration does not deserve trust: " + bad};
}

}  // namespace

DoctorReport doctor(const DoctorRequest& request) {
  DoctorReport report;
  const auto resolved = store::resolve_settings(request.database);
  std::optional<SilenceWatch> watch;
  if (resolved) watch.emplace(resolved->settings);
  report.findings = doctor::examine(request.database, resolved);
  watch.reset();
  for (const auto& variable : request.unread) {
    const std::string remedy = variable.meant.empty() ? "unset it; dblock(1) lists those there are"
                                                      : "did you mean " + variable.meant + "?";
    report.findings.push_back({"environment",
                               Level::warn,
                               variable.name,
                               "dblock has no such variable and ignores it; " + remedy,
                               {}});
  }
  for (const auto& finding : report.findings) report.verdict = std::max(report.verdict, finding.level);
  report.ending = ending_of(report.findings);
  return report;
}

}  // namespace dblock::app
