// Requests of the subcommands that acquire no lock.
#include <algorithm>

#include "base/text.hpp"
#include "cli/options/requests.hpp"

namespace dblock::cli {
namespace {

// --key, else DBLOCK_KEY: set inside a job, and after `lock=$(dblock acquire …) || exit; eval "$lock"`.
Result<lease::Key> key_or_variable(const Values& options, std::string_view command) {
  const bool typed = options.find("key").has_value();
  const auto inherited = typed ? std::nullopt : options.environment().get("DBLOCK_KEY");
  if (!inherited) return only_key(options, command);
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

Result<lease::OwnerId> owner_or_variable(const Values& options, std::string_view command) {
  const auto given = options.find("owner");
  auto owner = given ? given->text : options.environment().get("DBLOCK_OWNER");
  if (!owner || owner->empty()) {
    return fail(Errc::usage,
                std::string(command) + " needs --owner ID or DBLOCK_OWNER, as acquire printed it");
  }
  return lease::OwnerId{std::move(*owner)};
}

std::vector<app::UnreadVariable> unread_variables(const Environment& environment) {
  const std::string prefix = "DBLOCK_";
  const auto known = variable_names();
  std::vector<app::UnreadVariable> unread;
  for (const auto& variable : environment.own_names) {
    const auto name = variable.substr(prefix.size());
    if (std::ranges::find(known, name) != known.end()) continue;
    const auto nearest = nearest_word(name, known);
    unread.push_back({variable, nearest.empty() ? "" : prefix + nearest});
  }
  return unread;
}

// The value for ReleaseRequest::typed_store.
std::string typed_store(const Values& options, const store::SettingsSources& sources) {
  if (sources.local) return options.typed("local") ? " --local" : "";
  if (!sources.url_from_command_line) return "";
  if (!store::is_sqlite_url(*sources.url)) {
    const auto parts = store::parse_url(*sources.url);
    if (!parts || parts->password) return "";
  }
  return " --db " + shell_quote(*sources.url);
}

Result<void> take_force(const Values& options, app::ReleaseRequest& request) {
  DBLOCK_CHECK(options.read("now", request.now));
  DBLOCK_TRY(const auto token, options.get<std::optional<std::uint64_t>>("token"));
  const bool wait_given = options.find("wait").has_value();
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
    DBLOCK_TRY(request.wait, wait_policy(options));
  }
  return {};
}

// At most one judgement, with the keys that it needs.
Result<void> check_judgement(const app::InspectRequest& request) {
  const auto refuse = [](const char* why) { return fail(Errc::usage, std::string("inspect: ") + why); };
  const int judgements = int{request.exit_code} + int{request.max_age.has_value()} +
                         int{request.max_held.has_value()} + int{request.max_failures.has_value()};
  if (judgements > 1) return refuse("choose one of --exit-code, --max-age, --max-held and --max-failures");
  if (judgements == 1 && request.watch) {
    return refuse(
        "--watch goes on, and --exit-code, --max-age, --max-held and --max-failures answer once; choose one "
        "of them");
  }
  if (request.exit_code && request.keys.empty()) return refuse("--exit-code needs at least one --key");
  if (request.max_age && request.keys.empty() == !request.prefix)
    return refuse("--max-age needs either --key, once or several times, or --prefix");
  return {};
}

// The locks that --key or --prefix names: exactly one of them must be given.
Result<lease::PauseScope> scope(const Values& options, std::string_view command) {
  const auto prefix = options.find("prefix");
  const bool key_given = options.find("key").has_value();
  if (key_given == prefix.has_value()) {
    return fail(Errc::usage,
                std::string(command) +
                    " needs one of --key KEY, a lock, and --prefix P, all locks whose keys start "
                    "with P");
  }
  if (key_given) {
    DBLOCK_TRY(const auto key, only_key(options, command));
    return lease::PauseScope{key.bytes(), false};
  }
  if (prefix->text.empty()) return lease::PauseScope{"", true};
  const auto key = lease::Key::parse(prefix->text);
  if (!key) return prefix->refuse(key.error().message);
  return lease::PauseScope{prefix->text, true};
}

Result<std::variant<Micros, lease::ServerTime>> end_of_pause(const Values& options) {
  const auto until = options.find("until");
  DBLOCK_TRY(const auto length, options.get<std::optional<Micros>>("for"));
  if (length.has_value() == until.has_value())
    return fail(Errc::usage, "pause needs one of --for D and --until TIME, such as 2026-11-25T06:00:00Z");
  if (length) return *length;
  const auto time = lease::parse_time(until->text);
  if (time) return *time;
  return until->refuse(quote_untrusted(until->text) +
                       " is no time in the form of RFC 3339; write 2026-11-25T06:00:00Z, or with an offset "
                       "2026-11-25T07:00:00+01:00");
}

Result<void> take_history_switch(const Values& options, app::MigrateRequest& request) {
  using Action = app::MigrateRequest::Action;
  if (!options.find("history")) return {};
  if (request.action == Action::status || request.action == Action::dry_run)
    return fail(Errc::usage, "migrate: --history cannot be combined with --status or --dry-run");
  DBLOCK_TRY(const auto word, options.get<std::string>("history"));
  request.history = word == "on";
  return {};
}

}  // namespace

Result<app::RenewRequest> renew_request(const Values& options) {
  DBLOCK_TRY(auto key, key_or_variable(options, "renew"));
  DBLOCK_TRY(auto owner, owner_or_variable(options, "renew"));
  DBLOCK_TRY(const auto ttl, options.get<std::optional<Micros>>("ttl"));
  if (ttl) DBLOCK_CHECK(lease::make_timing({.ttl = *ttl, .heartbeat = {}, .kill_grace = {}, .margin = {}}));
  DBLOCK_TRY(auto database, database_sources(options));
  return app::RenewRequest{std::move(database), std::move(key), std::move(owner), ttl};
}

Result<app::ReleaseRequest> release_request(const Values& options) {
  DBLOCK_TRY(auto key, key_or_variable(options, "release"));
  DBLOCK_TRY(auto database, database_sources(options));
  app::ReleaseRequest request{.database = std::move(database), .key = std::move(key)};
  DBLOCK_CHECK(options.read("force", request.force));
  DBLOCK_CHECK(take_force(options, request));
  if (request.force) {
    request.identity = identity(options);
    request.typed_store = typed_store(options, request.database);
    if (options.typed("owner")) return fail(Errc::usage, "release: choose one of --owner and --force");
    return request;
  }
  DBLOCK_TRY(request.owner, owner_or_variable(options, "release"));
  return request;
}

Result<app::PauseRequest> pause_request(const Values& options) {
  app::PauseRequest request;
  DBLOCK_TRY(request.scope, scope(options, "pause"));
  DBLOCK_TRY(request.end, end_of_pause(options));
  DBLOCK_TRY(request.database, database_sources(options));
  request.identity = identity(options);
  if (options.find("wait")) {
    DBLOCK_TRY(request.wait, wait_policy(options));
  }
  return request;
}

Result<app::ResumeRequest> resume_request(const Values& options) {
  DBLOCK_TRY(auto scope_to_end, scope(options, "resume"));
  DBLOCK_TRY(auto database, database_sources(options));
  return app::ResumeRequest{std::move(database), std::move(scope_to_end)};
}

Result<app::HistoryRequest> history_request(const Values& options) {
  app::HistoryRequest request;
  DBLOCK_TRY(request.database, database_sources(options));
  DBLOCK_TRY(request.query.keys, named_keys(options));
  DBLOCK_CHECK(options.read("since", request.query.since));
  DBLOCK_CHECK(options.read("limit", request.query.limit));
  DBLOCK_CHECK(options.read("prefix", request.query.prefix));
  DBLOCK_CHECK(options.read("outcome", request.query.outcome));
  return request;
}

Result<app::InspectRequest> inspect_request(const Values& options) {
  app::InspectRequest request;
  DBLOCK_TRY(request.database, database_sources(options));
  DBLOCK_TRY(request.keys, named_keys(options));
  DBLOCK_CHECK(options.read("prefix", request.prefix));
  DBLOCK_CHECK(options.read("all", request.all));
  DBLOCK_CHECK(options.read("exit-code", request.exit_code));
  DBLOCK_CHECK(options.read("max-age", request.max_age));
  DBLOCK_CHECK(options.read("max-held", request.max_held));
  DBLOCK_CHECK(options.read("max-failures", request.max_failures));
  DBLOCK_CHECK(options.read("watch", request.watch));
  DBLOCK_CHECK(check_judgement(request));
  return request;
}

Result<app::WaitRequest> wait_request(const Values& options) {
  app::WaitRequest request;
  auto& inspect = request.inspect;
  DBLOCK_TRY(inspect.database, database_sources(options));
  DBLOCK_TRY(inspect.keys, named_keys(options));
  DBLOCK_CHECK(options.read("prefix", inspect.prefix));
  if (inspect.keys.empty() == !inspect.prefix)
    return fail(Errc::usage, "wait needs either --key, once or several times, or --prefix");
  DBLOCK_CHECK(options.read("success-within", inspect.max_age));
  inspect.exit_code = !inspect.max_age;
  inspect.from_primary = true;
  DBLOCK_CHECK(options.read("timeout", request.timeout));
  return request;
}

Result<app::ReapRequest> reap_request(const Values& options) {
  app::ReapRequest request;
  DBLOCK_TRY(request.database, database_sources(options));
  DBLOCK_CHECK(options.read("dry-run", request.dry_run));
  DBLOCK_CHECK(options.read("every", request.every));
  DBLOCK_CHECK(options.read("forget-after", request.forget_after));
  DBLOCK_CHECK(options.read("forget-history", request.forget_history));
  return request;
}

Result<app::MigrateRequest> migrate_request(const Values& options) {
  using Action = app::MigrateRequest::Action;
  app::MigrateRequest request;
  DBLOCK_TRY(request.database, database_sources(options));
  DBLOCK_TRY(const bool status, options.get<bool>("status"));
  DBLOCK_TRY(const bool dry_run, options.get<bool>("dry-run"));
  const bool print_grants = options.find("print-grants").has_value();
  if (int{status} + int{dry_run} + int{print_grants} > 1) {
    return fail(Errc::usage, "migrate: choose one of --status, --dry-run and --print-grants");
  }
  if (status) request.action = Action::status;
  if (dry_run) request.action = Action::dry_run;
  if (print_grants) request.action = Action::print_grants;
  DBLOCK_CHECK(options.read("print-grants", request.grants_user));
  DBLOCK_CHECK(take_history_switch(options, request));
  DBLOCK_TRY(request.applications, options.get<bool>("applications"));
  if (request.applications && (!print_grants || request.history))
    return fail(Errc::usage, "migrate: --applications goes with --print-grants, and without --history");
  return request;
}

Result<app::DoctorRequest> doctor_request(const Values& options) {
  DBLOCK_TRY(auto database, database_sources(options));
  app::DoctorRequest request{std::move(database), unread_variables(options.environment())};
  DBLOCK_TRY(const bool tries, options.get<bool>("try"));
  if (tries) request.tries = identity(options);
  return request;
}

Result<app::KeysRequest> keys_request(const Values& options) {
  DBLOCK_TRY(auto database, database_sources(options));
  DBLOCK_TRY(auto prefix, options.get<std::string>("prefix"));
  return app::KeysRequest{std::move(database), std::move(prefix)};
}

}  // namespace dblock::cli
