#include "doctor/doctor.hpp"

#include <sys/stat.h>

#include <variant>

#include "base/overloaded.hpp"
#include "base/small_file.hpp"
#include "doctor/judgements.hpp"
#include "doctor/trial.hpp"
#include "store/open.hpp"

namespace dblock::doctor {
namespace {

bool others_may_read(const std::string& path) {
  struct stat seen {};
  return ::stat(path.c_str(), &seen) == 0 && dblock::others_may_read(seen.st_mode, seen.st_gid);
}

Finding configuration(const store::SettingsSources& sources, const store::Settings& settings) {
  const std::string source = sources.named_by.empty() ? "option file" : sources.named_by;
  return {"configuration", Level::ok, source, store::display(settings), {}};
}

// Warnings where other users or jobs can see a password in the URL. A URL on the command line has a warning
// elsewhere.
std::vector<std::string> exposures_of_url(const store::SettingsSources& sources) {
  if (!sources.url) return {};
  const auto url = store::parse_url(*sources.url);
  if (!url || !url->password) return {};
  if (sources.named_by == "DBLOCK_DB")
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
  if (server->password_from == "DBLOCK_PASSWORD") {
    warn(
        {"the password in DBLOCK_PASSWORD is in the environment of every job; use password-command or "
         "password-file"});
  }
  const bool password = server->password && !server->password->empty();
  const std::string source = password ? "from " + server->password_from : "";
  // Who else may run what a command runs is not known.
  const bool by_command = server->password_from.starts_with("password-command");
  const std::string only_we =
      password && !by_command && findings.empty() ? ", and nobody else may read it" : "";
  findings.push_back({"credentials", Level::ok, password ? "password" : "no password", source + only_we, {}});
  return findings;
}

std::vector<Finding> judge_store(const store::Settings& settings,
                                 const std::optional<lease::OwnerId>& caller) {
  return std::visit(Overloaded{[](const ServerFacts& facts) { return judge_server(facts); },
                               [](const FileFacts& facts) { return judge_file(facts); }},
                    store::gather_facts(settings, caller));
}

}  // namespace

std::vector<Finding> examine(const store::SettingsSources& sources,
                             const Result<store::ResolvedSettings>& resolved,
                             const std::optional<lease::Holder>& tries) {
  if (!resolved) return {{"configuration", Level::bad, sources.named_by, resolved.error().message, {}}};
  const auto* const server = std::get_if<store::MariadbSettings>(&resolved->settings);
  if (server != nullptr && server->password_source.failure)
    return {{"configuration", Level::bad, sources.named_by, server->password_source.failure->message, {}}};
  std::vector<Finding> findings{configuration(sources, resolved->settings)};
  std::optional<lease::OwnerId> caller;
  if (tries) caller = owner_of_trial(*tries);
  for (auto& more : {credentials(sources, *resolved), judge_store(resolved->settings, caller)})
    findings.insert(findings.end(), more.begin(), more.end());
  return findings;
}

}  // namespace dblock::doctor
