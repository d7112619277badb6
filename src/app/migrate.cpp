// `dblock migrate`: bring dblock's tables to the version this binary needs.
#include <algorithm>
#include <utility>
#include <variant>

#include "app/database.hpp"
#include "app/use_cases.hpp"
#include "base/log.hpp"
#include "store/open.hpp"
#include "store/sql_grant.hpp"

namespace dblock::app {

using namespace std::chrono_literals;

namespace {

Result<void> look_for_routine(store::SchemaAdmin& schema, const std::string& database,
                              MigrateReport& report) {
  DBLOCK_TRY(const auto routine, schema.routine());
  if (!routine) return {};
  report.assert_held = routine->there;
  if (!routine->refusal.empty()) {
    log::warning(
        "all tables are there, but not the procedure dblock_assert_held(), by which jobs guard "
        "their own transactions: " +
        routine->refusal +
        ". To have it, run `dblock migrate` again as an account with CREATE ROUTINE on the database "
        "\"" +
        database + "\" (locks work without it)");
  }
  return {};
}

// Switches the history as the request says, and reports whether it is kept. Not asked before there are
// tables.
Result<void> switch_history(store::SchemaAdmin& schema, const MigrateRequest& request,
                            MigrateReport& report) {
  if (request.history) DBLOCK_CHECK(schema.keep_history(*request.history));
  const bool has_tables =
      std::ranges::any_of(report.states, [](const auto& state) { return state.applied_at.has_value(); });
  const bool asked = request.action == MigrateRequest::Action::status && has_tables;
  if (request.history || asked) {
    DBLOCK_TRY(report.history, schema.keeps_history());
  }
  return {};
}

}  // namespace

Result<MigrateReport> migrate(const MigrateRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  MigrateReport report;
  if (request.action == MigrateRequest::Action::print_grants) {
    const auto* server = std::get_if<store::MariadbSettings>(&settings);
    if (server == nullptr)
      return fail(Errc::usage,
                  "--print-grants is for MariaDB and MySQL; the embedded store knows no accounts");
    DBLOCK_TRY(report.grants,
               store::grants_for(request.grants_user, server->database, request.history.value_or(false)));
    return report;
  }
  const bool reads_only = request.action != MigrateRequest::Action::apply;
  const auto schema = store::open_schema(settings, {.reads_only = reads_only});
  report.schema_version = schema->version();
  if (request.action == MigrateRequest::Action::apply) {
    DBLOCK_TRY(const auto applied, schema->apply());
    for (const store::Migration& migration : applied) report.states.push_back({migration, std::nullopt});
  } else {
    DBLOCK_TRY(report.states, schema->status());
  }
  DBLOCK_CHECK(switch_history(*schema, request, report));
  const auto* server = std::get_if<store::MariadbSettings>(&settings);
  if (server != nullptr && request.action != MigrateRequest::Action::dry_run)
    DBLOCK_CHECK(look_for_routine(*schema, server->database, report));
  return report;
}

}  // namespace dblock::app
