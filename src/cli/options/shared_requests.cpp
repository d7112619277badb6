// What the requests of several subcommands have in common.
#include "cli/options/requests.hpp"

#include <utility>

#include "cli/options/config_file.hpp"

namespace dblock::cli {

Result<std::vector<lease::Key>> named_keys(const Values& options, std::string_view option) {
  std::vector<lease::Key> keys;
  for (const auto& value : options.all(option)) {
    auto key = lease::Key::parse(value.text);
    if (!key) return value.refuse(key.error().message);
    keys.push_back(std::move(*key));
  }
  return keys;
}

Result<lease::Key> only_key(const Values& options, std::string_view command) {
  DBLOCK_TRY(auto keys, named_keys(options));
  if (keys.empty()) return fail(Errc::usage, std::string(command) + " needs --key KEY, the name of the lock");
  if (keys.size() > 1)
    return fail(Errc::usage, std::string(command) + ": --key is given twice; give one key");
  return std::move(keys.front());
}

Result<lease::WaitPolicy> wait_policy(const Values& options) {
  lease::WaitPolicy policy;
  const auto wait = options.find("wait");
  const auto nonblock = options.find("nonblock");
  if (nonblock && (!wait || nonblock->rank >= wait->rank)) {
    DBLOCK_TRY(const bool once, options.get<bool>("nonblock"));
    if (once) return policy;
  }
  DBLOCK_CHECK(options.read("wait", policy.limit));
  return policy;
}

namespace {

// Web address of the CI job that takes the lock: GitLab, GitHub, Jenkins, Buildkite or CircleCI.
std::string ci_job_url(const Environment& environment) {
  if (const auto url = environment.get("CI_JOB_URL")) return *url;
  const auto server = environment.get("GITHUB_SERVER_URL");
  const auto repository = environment.get("GITHUB_REPOSITORY");
  const auto run = environment.get("GITHUB_RUN_ID");
  if (server && repository && run) return *server + "/" + *repository + "/actions/runs/" + *run;
  for (const auto* const name : {"BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL"}) {
    if (const auto url = environment.get(name)) return *url;
  }
  return {};
}

}  // namespace

app::Identity identity(const Values& options) {
  const auto note = options.find("note");
  return {options.environment().get("DBLOCK_HOLDER"), note ? note->text : ci_job_url(options.environment())};
}

// --local and --db each name a store; the one of higher rank wins. `local = no` names no store, but overrides
// a --local of lower rank.
Result<store::SettingsSources> database_sources(const Values& options) {
  store::SettingsSources sources;
  auto url = options.find("db");
  DBLOCK_CHECK(options.read("local", sources.local));
  if (sources.local && url) {
    const auto local = options.find("local");
    if (local->rank == url->rank) {
      return fail(Errc::config,
                  "choose one of " + local->label + " and " + url->label + ": each names a store");
    }
    if (local->rank < url->rank) {
      sources.local = false;
    } else {
      url.reset();
    }
  }
  if (sources.local) sources.named_by = options.find("local")->label;
  if (url) {
    sources.url_from_command_line = url->rank == Rank::flag;
    sources.named_by = url->label;
    sources.url_file = url->file();
    sources.url = std::move(url->text);
  }
  DBLOCK_CHECK(options.read("defaults-file", sources.defaults_file));
  sources.password_file = options.environment().get("DBLOCK_PASSWORD_FILE");
  sources.password = options.environment().get("DBLOCK_PASSWORD");
  sources.in_password_command = options.environment().get("DBLOCK_EVENT") == "password";
  if (auto file = options.find(k_password_file); file && !file->text.empty())
    sources.config_password_file = std::move(file->text);
  if (auto command = options.find(k_password_command); command && !command->text.empty())
    sources.password_command = {std::move(command->text), "password-command in " + command->file()};
  sources.root = options.environment().root;
  sources.home = options.environment().get("HOME").value_or("");
  sources.passed_over = options.passed_over();
  sources.state_home = options.environment().get("XDG_STATE_HOME").value_or("");
  return sources;
}

}  // namespace dblock::cli
