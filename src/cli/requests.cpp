#include "cli/requests.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "cli/password.hpp"
#include "process/command.hpp"

namespace dblock::cli {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_kept_ttl = 2min;  // as run's: somebody renews

}  // namespace

// --local and --db each name a store; what was said in the stronger place wins. `local = no` names none, but
// outranks a weaker --local.
Result<store::SettingsSources> database_sources(const RequestSource& from) {
  store::SettingsSources sources;
  auto url = from.options.values().find("db");
  DBLOCK_TRY(sources.local, from.options.flag("local"));
  if (sources.local && url) {
    const auto local = from.options.values().find("local");
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
  if (sources.local) sources.said_by = from.options.values().find("local")->label;
  if (url) {
    sources.url_from_command_line = url->rank == Rank::flag;
    sources.said_by = url->label;
    sources.url_file = url->file();
    sources.url = std::move(url->text);
  }
  sources.defaults_file = from.options.text("defaults-file");
  sources.password_file = from.surroundings.get("DBLOCK_PASSWORD_FILE");
  sources.root = from.surroundings.root;
  sources.home = from.surroundings.get("HOME").value_or("");
  sources.state_home = from.surroundings.get("XDG_STATE_HOME").value_or("");
  return sources;
}

namespace {

// Where a person finds the log of the CI job that takes the lock: GitLab, GitHub, Jenkins, Buildkite,
// CircleCI.
std::string ci_job_url(const Surroundings& surroundings) {
  if (const auto url = surroundings.get("CI_JOB_URL")) return *url;
  const auto server = surroundings.get("GITHUB_SERVER_URL");
  const auto repository = surroundings.get("GITHUB_REPOSITORY");
  const auto run = surroundings.get("GITHUB_RUN_ID");
  if (server && repository && run) return *server + "/" + *repository + "/actions/runs/" + *run;
  for (const auto* const name : {"BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL"}) {
    if (const auto url = surroundings.get(name)) return *url;
  }
  return {};
}

app::Identity identity(const RequestSource& from) {
  const auto note = from.options.text("note");
  return {from.surroundings.get("DBLOCK_HOLDER"), note ? *note : ci_job_url(from.surroundings)};
}

Result<lease::Key> only_key(const RequestSource& from, std::string_view command) {
  DBLOCK_TRY(auto keys, from.options.keys("key"));
  if (keys.empty()) return fail(Errc::usage, std::string(command) + " needs --key KEY, the name of the lock");
  if (keys.size() > 1)
    return fail(Errc::usage, std::string(command) + ": --key is given twice; give one key");
  return std::move(keys.front());
}

// As a person would type it, safe to show.
std::string typed(std::string word) {
  mask_url_password(word.data());
  const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:=,@%+").find(c) != std::string_view::npos;
  });
  return plain ? word : shell_quote(word);
}

// `run KEY COMMAND` is a habit from flock; `run COMMAND` lacks a key altogether.
std::string line_with_key(const RequestSource& from) {
  if (from.parsed.job.empty()) return "dblock run --key KEY -- COMMAND [ARG...]";
  std::string line = "dblock";
  const auto before = from.parsed.words.size() - from.parsed.job.size();
  for (std::size_t i = 0; i < before; ++i) {
    if (i + 1 < before || from.parsed.words[i] != "--") line += " " + typed(from.parsed.words[i]);
  }
  const std::string& first = from.parsed.job.front();
  const bool alone = from.parsed.job.size() == 1 && !from.options.given("command");
  const auto path = from.surroundings.get("PATH");
  const bool is_command = alone || first.starts_with('/') || first.starts_with('.') ||
                          process::find_command(first, path ? path->c_str() : nullptr);
  line += " --key " + (is_command ? std::string("KEY") : typed(first));
  // The command's own words may hold a password, so they are not repeated.
  const auto rest = std::span(from.parsed.job).subspan(is_command ? 0 : 1);
  if (!rest.empty() && !rest.front().starts_with('-')) line += " --";
  for (std::size_t i = 0; i < rest.size(); ++i) {
    line += " " + typed(rest[i]);
    const bool is_option = rest[i].starts_with('-') && rest[i] != "-c";
    if (!is_option && i + 1 < rest.size()) return line + " ...";
  }
  return line;
}

// Sorted and each once, so that everyone takes the same locks in the same order.
Result<std::vector<lease::Key>> several_keys(const RequestSource& from) {
  DBLOCK_TRY(auto keys, from.options.keys("key"));
  if (keys.empty())
    return fail(Errc::usage, "run needs --key KEY, the name of the lock; write: " + line_with_key(from));
  std::ranges::sort(keys);
  const auto repeated = std::ranges::unique(keys);
  keys.erase(repeated.begin(), repeated.end());
  return keys;
}

constexpr std::uint64_t k_most_slots = 100'000;

// --shared, --exclusive and --slots each choose a kind of lock; what was said in the stronger place wins.
Result<lease::Sharing> sharing(const Reader& options) {
  DBLOCK_TRY(const auto slots, options.number("slots", k_most_slots));
  if (slots == 0U) return options.values().find("slots")->refuse("must be at least 1");
  std::optional<std::pair<Rank, std::string>> chosen;
  lease::Sharing sharing;
  for (const auto* const name : {"shared", "exclusive", "slots"}) {
    const auto value = options.values().find(name);
    if (!value || value->rank == Rank::fallback) continue;
    const bool counts = std::string_view(name) == "slots";
    if (!counts) {
      DBLOCK_TRY(const bool on, options.flag(name));
      if (!on) continue;
    }
    if (chosen && chosen->first == value->rank)
      return fail(Errc::usage, "choose one of " + chosen->second + " and " + value->label);
    if (chosen && chosen->first > value->rank) continue;
    chosen = {value->rank, value->label};
    sharing = {};
    if (std::string_view(name) == "shared") sharing.mode = lease::Mode::shared;
    if (counts && *slots > 1) sharing = {lease::Mode::slot, static_cast<std::uint32_t>(*slots)};
  }
  return sharing;
}

Result<lease::Timing> timing(const RequestSource& from, Micros ttl) {
  lease::TimingRequest request;
  request.ttl = ttl;
  DBLOCK_TRY(request.heartbeat, from.options.duration("heartbeat"));
  DBLOCK_TRY(request.kill_grace, from.options.duration("kill-grace"));
  DBLOCK_TRY(request.margin, from.options.duration("margin"));
  return lease::make_timing(request);
}

Result<process::Leftovers> leftovers(const Reader& options) {
  DBLOCK_TRY(const auto word, options.choice("leftovers"));
  if (word == "wait") return process::Leftovers::wait;
  if (word == "kill") return process::Leftovers::kill;
  if (word == "leave") return process::Leftovers::leave;
  return process::Leftovers::automatic;
}

// As a lease: whoever finds the lock kept for longer will take it for stuck.
constexpr Micros k_longest_hold = std::chrono::days(30);

Result<Micros> min_hold(const Reader& options) {
  DBLOCK_TRY(const auto length, options.duration("min-hold"));
  if (length && *length > k_longest_hold)
    return options.values().find("min-hold")->refuse("must be at most 30d, the longest lease");
  return length.value_or(Micros{0});
}

Result<std::optional<lease::OncePer>> once_per(const Reader& options) {
  DBLOCK_TRY(const auto period, options.positive_duration("once-per"));
  if (!period) return std::nullopt;
  return lease::OncePer{*period};
}

Result<std::optional<app::WhilePid>> while_pid(const Reader& options) {
  DBLOCK_TRY(const auto pid, options.number("while-pid", std::numeric_limits<pid_t>::max()));
  if (!pid) {
    if (options.given("lost-signal"))
      return fail(Errc::usage, "acquire: --lost-signal needs --while-pid PID");
    return std::nullopt;
  }
  if (*pid == 0)
    return options.values()
        .find("while-pid")
        ->refuse("0 is no process; give the pid of the one to hold the lock for, such as $$");
  app::WhilePid kept{.pid = static_cast<pid_t>(*pid)};
  DBLOCK_TRY(kept.lost_signal, options.signal("lost-signal"));
  return kept;
}

// A hook's dblock would start hooks that start a dblock …: what is not typed is for the outermost one.
// A signal's name is meant for acquire's --lost-signal.
Result<std::string> hook(const RequestSource& from, std::string_view name) {
  const auto value = from.options.values().find(name);
  if (!value) return std::string();
  const bool typed = value->rank == Rank::flag;
  if (!typed && from.surroundings.get("DBLOCK_EVENT")) return std::string();
  if (name == "on-lost" && parse_signal(value->text)) {
    return value->refuse(quote_untrusted(value->text) +
                         " is a signal, as `acquire --lost-signal` takes; for `run` write a command");
  }
  return value->text;
}

// -c from the environment or a file gives way to a command that was typed; both typed is a contradiction.
Result<void> take_job(const RequestSource& from, app::RunRequest& request) {
  const auto shell = from.options.values().find("command");
  if (!from.parsed.job.empty()) {
    if (shell && shell->rank == Rank::flag) {
      return fail(Errc::usage, "run: both --command and COMMAND are given; choose one");
    }
    request.command = from.parsed.job;
    return {};
  }
  if (!shell) return fail(Errc::usage, "run needs a command: dblock run --key KEY -- COMMAND [ARG...]");
  request.shell_command = shell->text;
  return {};
}

// renew and release inside a job or after `lock=$(dblock acquire …) || exit; eval "$lock"`.
Result<lease::Key> key_or_variable(const RequestSource& from, std::string_view command) {
  const bool typed = from.options.values().find("key").has_value();
  const auto inherited = typed ? std::nullopt : from.surroundings.get("DBLOCK_KEY");
  if (!inherited) return only_key(from, command);
  if (inherited->find('\n') != std::string::npos) {
    return fail(Errc::usage,
                "DBLOCK_KEY: these are the keys of a running job; its lease ends with it, so there is "
                "nothing to " +
                    std::string(command));
  }
  auto key = lease::Key::parse(*inherited);
  if (!key) return fail(Errc::usage, "DBLOCK_KEY: " + key.error().message);
  return key;
}

Result<lease::OwnerId> owner_or_variable(const RequestSource& from, std::string_view command) {
  auto owner = from.options.text("owner");
  if (!owner) owner = from.surroundings.get("DBLOCK_OWNER");
  if (!owner || owner->empty()) {
    return fail(Errc::usage,
                std::string(command) + " needs --owner ID or DBLOCK_OWNER, as acquire printed it");
  }
  return lease::OwnerId{std::move(*owner)};
}

// As ReleaseRequest::typed_store.
std::string typed_store(const Reader& options, const store::SettingsSources& sources) {
  if (sources.local) return options.given("local") ? " --local" : "";
  if (!sources.url_from_command_line) return "";
  if (!store::is_sqlite_url(*sources.url)) {
    const auto parts = store::parse_url(*sources.url);
    if (!parts || parts->password) return "";
  }
  return " --db " + shell_quote(*sources.url);
}

Result<void> take_force(const RequestSource& from, app::ReleaseRequest& request) {
  const Reader& options = from.options;
  DBLOCK_TRY(request.now, options.flag("now"));
  DBLOCK_TRY(const auto token, options.number("token", std::numeric_limits<std::uint64_t>::max()));
  const bool wait_given = options.text("wait").has_value();
  if (!request.force && (token || request.now)) {
    return fail(Errc::usage, "release: --token and --now need --force");
  }
  if ((request.now || wait_given) && !token) {
    return fail(Errc::usage,
                "release: --now and --wait need --force --token T; release --force shows the token");
  }
  if (request.now && wait_given) return fail(Errc::usage, "release: choose one of --now and --wait");
  if (token) request.token = lease::Token{*token};
  if (wait_given) {
    DBLOCK_TRY(request.wait, options.wait());
  }
  return {};
}

}  // namespace

Result<app::RunRequest> run_request(const RequestSource& from) {
  const Reader& options = from.options;
  DBLOCK_TRY(auto keys, several_keys(from));
  DBLOCK_TRY(const auto ttl, options.duration("ttl"));
  DBLOCK_TRY(const auto lengths, timing(from, ttl.value_or(Micros{0})));
  DBLOCK_TRY(auto database, database_sources(from));
  app::RunRequest request{.database = std::move(database),
                          .identity = identity(from),
                          .key = keys.front(),
                          .timing = lengths,
                          .wait = {},
                          .max_runtime = {},
                          .status_file = {},
                          .shell_command = {},
                          .command = {}};
  request.held = from.surroundings.get("DBLOCK_HELD").value_or("");
  DBLOCK_TRY(const bool apart, options.flag("no-reentrant"));
  request.reentrant = !apart;
  request.also.assign(keys.begin() + 1, keys.end());
  DBLOCK_TRY(request.sharing, sharing(options));
  if (request.sharing.mode == lease::Mode::slot && !request.also.empty())
    return fail(Errc::usage, "run: --slots counts the holders of one lock; give one --key");
  DBLOCK_TRY(request.wait, options.wait_or_retry());
  DBLOCK_TRY(request.promises.min_hold, min_hold(options));
  DBLOCK_TRY(request.promises.once_per, once_per(options));
  DBLOCK_TRY(const auto conflict, options.number("conflict-exit-code", 255));
  request.conflict_exit_code = static_cast<int>(conflict.value_or(75));
  DBLOCK_TRY(request.first_signal, options.signal("signal"));
  DBLOCK_TRY(request.max_runtime, options.optional_limit("max-runtime"));
  DBLOCK_TRY(request.with_parent, options.flag("with-parent"));
  DBLOCK_TRY(request.leftovers, leftovers(options));
  DBLOCK_TRY(const auto warn_after, options.duration("warn-after"));
  request.warn_after = warn_after.value_or(Micros{0});
  DBLOCK_TRY(request.record_args, options.flag("record-args"));
  request.status_file = options.text("status-file");
  if (request.status_file && request.status_file->empty()) {
    return options.values()
        .find("status-file")
        ->refuse("the file name is empty; name a file, or leave the option out");
  }
  DBLOCK_TRY(request.hooks.wait, hook(from, "on-wait"));
  DBLOCK_TRY(request.hooks.lost, hook(from, "on-lost"));
  DBLOCK_TRY(request.hooks.conflict, hook(from, "on-conflict"));
  DBLOCK_CHECK(take_job(from, request));
  return request;
}

Result<app::AcquireRequest> acquire_request(const RequestSource& from) {
  const Reader& options = from.options;
  DBLOCK_TRY(auto key, only_key(from, "acquire"));
  DBLOCK_TRY(const auto ttl, options.duration("ttl"));
  DBLOCK_TRY(const auto kept, while_pid(options));
  if (!ttl && !kept) {
    return fail(Errc::usage,
                "acquire needs --ttl D, how long the script takes, or --while-pid PID, the process until "
                "whose end the lease is renewed (a script's own is $$)");
  }
  DBLOCK_TRY(const auto lengths, timing(from, ttl.value_or(k_kept_ttl)));
  DBLOCK_TRY(auto database, database_sources(from));
  app::AcquireRequest request{.database = std::move(database),
                              .identity = identity(from),
                              .key = std::move(key),
                              .timing = lengths,
                              .wait = {}};
  request.while_pid = kept;
  DBLOCK_TRY(request.sharing, sharing(options));
  DBLOCK_TRY(request.wait, options.wait_or_retry());
  DBLOCK_TRY(request.promises.min_hold, min_hold(options));
  DBLOCK_TRY(const auto warn_after, options.duration("warn-after"));
  request.warn_after = warn_after.value_or(Micros{0});
  return request;
}

Result<app::RenewRequest> renew_request(const RequestSource& from) {
  DBLOCK_TRY(auto key, key_or_variable(from, "renew"));
  DBLOCK_TRY(auto owner, owner_or_variable(from, "renew"));
  DBLOCK_TRY(const auto ttl, from.options.duration("ttl"));
  if (ttl) DBLOCK_CHECK(lease::make_timing({.ttl = *ttl, .heartbeat = {}, .kill_grace = {}, .margin = {}}));
  DBLOCK_TRY(auto database, database_sources(from));
  return app::RenewRequest{std::move(database), std::move(key), std::move(owner), ttl};
}

Result<app::ReleaseRequest> release_request(const RequestSource& from) {
  DBLOCK_TRY(auto key, key_or_variable(from, "release"));
  DBLOCK_TRY(auto database, database_sources(from));
  app::ReleaseRequest request{.database = std::move(database),
                              .typed_store = {},
                              .key = std::move(key),
                              .owner = {},
                              .token = {},
                              .wait = {}};
  DBLOCK_TRY(request.force, from.options.flag("force"));
  DBLOCK_CHECK(take_force(from, request));
  if (request.force) {
    request.typed_store = typed_store(from.options, request.database);
    if (from.options.given("owner")) return fail(Errc::usage, "release: choose one of --owner and --force");
    return request;
  }
  DBLOCK_TRY(request.owner, owner_or_variable(from, "release"));
  return request;
}

}  // namespace dblock::cli
