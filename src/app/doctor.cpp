// `dblock doctor`: does this configuration deserve trust? Changes nothing, unless --try asks for that.
#include "doctor/doctor.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "app/identity.hpp"
#include "app/silence_watch.hpp"
#include "app/use_cases.hpp"
#include "base/log.hpp"
#include "doctor/trial.hpp"
#include "lease/timing.hpp"
#include "store/open.hpp"

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

// Whether anything can be tried: one host answers, or the file does.
bool can_be_reached(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& finding) {
    return finding.level != Level::bad && (finding.check == "connection" || finding.check == "store");
  });
}

std::vector<Finding> try_out(const store::Settings& settings, const lease::Holder& holder) {
  static SystemClock clock;  // an abandoned thread may use it until the process ends
  const auto open = [&settings] {
    return store::open_store(settings, {lease::network_timeout(doctor::k_ttl_of_trial)}, clock);
  };
  return doctor::try_out(open, holder);
}

}  // namespace

DoctorReport doctor(const DoctorRequest& request) {
  DoctorReport report;
  const auto resolved = store::resolve_settings(request.database);
  std::optional<lease::Holder> tries;
  if (request.tries)
    tries = make_holder(*request.tries, static_cast<std::uint32_t>(::getpid()), "dblock doctor");
  std::optional<SilenceWatch> watch;
  if (resolved) watch.emplace(resolved->settings);
  report.findings = doctor::examine(request.database, resolved, tries);
  watch.reset();
  if (tries && can_be_reached(report.findings)) {
    log::info("trying what jobs do takes two seconds, and longer while another trial has the locks");
    std::ranges::move(try_out(resolved->settings, *tries), std::back_inserter(report.findings));
  }
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
