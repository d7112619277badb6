// What history was asked for, and migrate about it.
#include "cli/requests.hpp"

namespace dblock::cli {
namespace {

constexpr std::uint64_t k_most_runs = 1'000'000;

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

Result<void> take_history_switch(const RequestSource& from, app::MigrateRequest& request) {
  using Action = app::MigrateRequest::Action;
  if (!from.options.text("history")) return {};
  if (request.action == Action::status || request.action == Action::dry_run)
    return fail(Errc::usage, "migrate: --history goes with neither --status nor --dry-run");
  DBLOCK_TRY(const auto word, from.options.choice("history"));
  request.history = word == "on";
  return {};
}

}  // namespace dblock::cli
