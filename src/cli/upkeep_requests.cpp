// What is asked for by the subcommands that take no lock.
#include <chrono>

#include "cli/requests.hpp"

namespace dblock::cli {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_least_forget_after = 24h;  // a blocked statement keeps its old clock for hours (I2)
constexpr std::uint64_t k_most_runs = 1'000'000;

Result<void> take_history_switch(const RequestSource& from, app::MigrateRequest& request) {
  using Action = app::MigrateRequest::Action;
  if (!from.options.text("history")) return {};
  if (request.action == Action::status || request.action == Action::dry_run)
    return fail(Errc::usage, "migrate: --history goes with neither --status nor --dry-run");
  DBLOCK_TRY(const auto word, from.options.choice("history"));
  request.history = word == "on";
  return {};
}

}  // namespace

Result<app::HistoryRequest> history_request(const RequestSource& from) {
  const Reader& options = from.options;
  app::HistoryRequest request;
  DBLOCK_TRY(request.database, database_sources(from));
  DBLOCK_TRY(request.query.keys, options.keys("key"));
  DBLOCK_TRY(request.query.since, options.positive_duration("since"));
  DBLOCK_TRY(const auto limit, options.number("limit", k_most_runs));
  request.query.limit = limit.value_or(0);
  if (request.query.limit == 0) return options.values().find("limit")->refuse("give a number from 1 on");
  return request;
}

Result<app::InspectRequest> inspect_request(const RequestSource& from) {
  const Reader& options = from.options;
  app::InspectRequest request;
  DBLOCK_TRY(request.database, database_sources(from));
  DBLOCK_TRY(request.keys, options.keys("key"));
  request.prefix = options.text("prefix");
  DBLOCK_TRY(request.all, options.flag("all"));
  DBLOCK_TRY(request.exit_code, options.flag("exit-code"));
  DBLOCK_TRY(request.max_age, options.positive_duration("max-age"));
  if (request.keys.empty() && (request.exit_code || request.max_age)) {
    return fail(Errc::usage, "inspect: --exit-code and --max-age need at least one --key");
  }
  if (request.exit_code && request.max_age) {
    return fail(Errc::usage, "inspect: choose one of --exit-code and --max-age");
  }
  DBLOCK_TRY(request.watch, options.interval("watch"));
  if (request.watch && (request.exit_code || request.max_age)) {
    return fail(Errc::usage,
                "inspect: --watch goes on, and --exit-code and --max-age answer once; choose one of them");
  }
  return request;
}

Result<app::ReapRequest> reap_request(const RequestSource& from) {
  const Reader& options = from.options;
  app::ReapRequest request;
  DBLOCK_TRY(request.database, database_sources(from));
  DBLOCK_TRY(request.dry_run, options.flag("dry-run"));
  DBLOCK_TRY(request.every, options.positive_duration("every"));
  DBLOCK_TRY(const auto forget_after, options.duration("forget-after"));
  request.forget_after = forget_after.value_or(Micros{0});
  DBLOCK_TRY(const auto forget_history, options.duration("forget-history"));
  request.forget_history = forget_history.value_or(Micros{0});
  if (request.forget_after < k_least_forget_after) {
    return options.values()
        .find("forget-after")
        ->refuse("rows must be idle for at least 1d before they are deleted, so that tokens stay increasing");
  }
  return request;
}

Result<app::MigrateRequest> migrate_request(const RequestSource& from) {
  using Action = app::MigrateRequest::Action;
  const Reader& options = from.options;
  app::MigrateRequest request;
  DBLOCK_TRY(request.database, database_sources(from));
  DBLOCK_TRY(const bool status, options.flag("status"));
  DBLOCK_TRY(const bool dry_run, options.flag("dry-run"));
  const auto user = options.text("print-grants");
  if (int{status} + int{dry_run} + int{user.has_value()} > 1) {
    return fail(Errc::usage, "migrate: choose one of --status, --dry-run and --print-grants");
  }
  if (user && user->empty())
    return options.values()
        .find("print-grants")
        ->refuse("the user's name is empty; write for example 'jobs@%'");
  if (status) request.action = Action::status;
  if (dry_run) request.action = Action::dry_run;
  if (user) {
    request.action = Action::print_grants;
    request.grants_user = *user;
  }
  DBLOCK_CHECK(take_history_switch(from, request));
  return request;
}

Result<app::DoctorRequest> doctor_request(const RequestSource& from) {
  DBLOCK_TRY(auto database, database_sources(from));
  return app::DoctorRequest{std::move(database)};
}

Result<app::KeysRequest> keys_request(const RequestSource& from) {
  DBLOCK_TRY(auto database, database_sources(from));
  return app::KeysRequest{std::move(database), from.options.text("prefix").value_or("")};
}

}  // namespace dblock::cli
