// `dblock doctor`: does this configuration deserve trust? Changes nothing.
#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "app/use_cases.hpp"

namespace dblock::app {
namespace {

using store::Finding;
using store::Level;

std::string display(const store::Settings& settings) {
  return std::visit([](const auto& one) { return one.display(); }, settings);
}

bool others_may_read(const std::string& path) {
  struct stat seen {};
  return ::stat(path.c_str(), &seen) == 0 && (seen.st_mode & (S_IRGRP | S_IROTH)) != 0;
}

Finding configuration(const store::SettingsSources& sources, const store::Settings& settings) {
  const std::string source = sources.said_by.empty() ? "option file" : sources.said_by;
  return {"configuration", Level::ok, source, display(settings), {}};
}

// Where a password in the URL can be seen; the command line has a warning of its own.
std::vector<std::string> exposures_of_url(const store::SettingsSources& sources) {
  if (!sources.url) return {};
  const auto url = store::parse_url(*sources.url);
  if (!url || !url->password) return {};
  if (sources.said_by == "DBLOCK_DB")
    return {
        "the password in DBLOCK_DB is in the environment of every job; use an option file or password-file"};
  if (!sources.url_file.empty() && others_may_read(sources.url_file))
    return {"others may read the password in " + sources.url_file + "; chmod 600 it"};
  return {};
}

std::vector<Finding> credentials(const store::SettingsSources& sources,
                                 const store::ResolvedSettings& resolved) {
  std::vector<Finding> findings;
  const auto warn = [&](const std::vector<std::string>& sentences) {
    for (const auto& sentence : sentences) findings.push_back({"credentials", Level::warn, "", sentence, {}});
  };
  warn(resolved.warnings);
  warn(resolved.remarks);
  const auto* const server = std::get_if<store::MariadbSettings>(&resolved.settings);
  if (server == nullptr) return findings;
  warn(exposures_of_url(sources));
  const bool password = server->password && !server->password->empty();
  const std::string source = password ? "from " + server->password_from : "";
  const std::string only_we = password && findings.empty() ? ", and nobody else may read it" : "";
  findings.push_back({"credentials", Level::ok, password ? "password" : "no password", source + only_we, {}});
  return findings;
}

std::vector<Finding> find_all(const store::SettingsSources& sources) {
  const auto resolved = store::resolve_settings(sources);
  if (!resolved) return {{"configuration", Level::bad, sources.said_by, resolved.error().message, {}}};
  std::vector<Finding> findings{configuration(sources, resolved->settings)};
  for (auto& more : {credentials(sources, *resolved), store::examine(resolved->settings)})
    findings.insert(findings.end(), more.begin(), more.end());
  return findings;
}

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
  report.findings = find_all(request.database);
  for (const auto& finding : report.findings) report.verdict = std::max(report.verdict, finding.level);
  report.ending = ending_of(report.findings);
  return report;
}

}  // namespace dblock::app
