// What is asked for by the subcommands that take no lock.
#include "cli/requests.hpp"

namespace dblock::cli {
namespace {

Result<void> take_history_switch(const RequestSource& from, app::MigrateRequest& request) {
  using Action = app::MigrateRequest::Action;
  if (!from.options.find("history")) return {};
  if (request.action == Action::status || request.action == Action::dry_run)
    return fail(Errc::usage, "migrate: --history goes with neither --status nor --dry-run");
  DBLOCK_TRY(const auto word, from.options.get<std::string>("history"));
  request.history = word == "on";
  return {};
}

}  // namespace

Result<app::HistoryRequest> history_request(const RequestSource& from) {
  const Values& options = from.options;
  app::HistoryRequest request;
  DBLOCK_TRY(request.database, database_sources(from));
  DBLOCK_TRY(request.query.keys, named_keys(options));
  DBLOCK_CHECK(options.read("since", request.query.since));
  DBLOCK_CHECK(options.read("limit", request.query.limit));
  return request;
}

Result<app::InspectRequest> inspect_request(const RequestSource& from) {
  const Values& options = from.options;
  app::InspectRequest request;
  DBLOCK_TRY(request.database, database_sources(from));
  DBLOCK_TRY(request.keys, named_keys(options));
  DBLOCK_CHECK(options.read("prefix", request.prefix));
  DBLOCK_CHECK(options.read("all", request.all));
  DBLOCK_CHECK(options.read("exit-code", request.exit_code));
  DBLOCK_CHECK(options.read("max-age", request.max_age));
  if (request.keys.empty() && (request.exit_code || request.max_age)) {
    return fail(Errc::usage, "inspect: --exit-code and --max-age need at least one --key");
  }
  if (request.exit_code && request.max_age) {
    return fail(Errc::usage, "inspect: choose one of --exit-code and --max-age");
  }
  DBLOCK_CHECK(options.read("watch", request.watch));
  if (request.watch && (request.exit_code || request.max_age)) {
    return fail(Errc::usage,
                "inspect: --watch goes on, and --exit-code and --max-age answer once; choose one of them");
  }
  return request;
}

Result<app::ReapRequest> reap_request(const RequestSource& from) {
  const Values& options = from.options;
  app::ReapRequest request;
  DBLOCK_TRY(request.database, database_sources(from));
  DBLOCK_CHECK(options.read("dry-run", request.dry_run));
  DBLOCK_CHECK(options.read("every", request.every));
  DBLOCK_CHECK(options.read("forget-after", request.forget_after));
  DBLOCK_CHECK(options.read("forget-history", request.forget_history));
  return request;
}

Result<app::MigrateRequest> migrate_request(const RequestSource& from) {
  using Action = app::MigrateRequest::Action;
  const Values& options = from.options;
  app::MigrateRequest request;
  DBLOCK_TRY(request.database, database_sources(from));
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
  DBLOCK_CHECK(take_history_switch(from, request));
  return request;
}

Result<app::DoctorRequest> doctor_request(const RequestSource& from) {
  DBLOCK_TRY(auto database, database_sources(from));
  return app::DoctorRequest{std::move(database)};
}

Result<app::KeysRequest> keys_request(const RequestSource& from) {
  DBLOCK_TRY(auto database, database_sources(from));
  DBLOCK_TRY(auto prefix, from.options.get<std::string>("prefix"));
  return app::KeysRequest{std::move(database), std::move(prefix)};
}

}  // namespace dblock::cli
