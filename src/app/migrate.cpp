// `dblock migrate`: bring dblock's tables to the version this binary needs.
#include <algorithm>
#include <utility>
#include <variant>

#include "app/silence_watch.hpp"
#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "base/log.hpp"
#include "base/overloaded.hpp"
#include "store/open.hpp"
#include "store/sql_grant.hpp"

namespace dblock::app {

using namespace std::chrono_literals;

namespace {

void report_applied(store::Applied applied, const std::string& database, MigrateReport& report) {
  for (const store::Migration& migration : applied.migrations)
    report.states.push_back({migration, std::nullopt});
  report.installed = std::move(applied.procedures);
  if (!applied.refusal.empty()) {
    log::warning(
        "all tables are there, but not all procedures, by which applications use the locks and jobs guard "
        "their own transactions: " +
        applied.refusal +
        ". To have them, run `dblock migrate` again as an account with CREATE ROUTINE, ALTER ROUTINE and "
        "UPDATE on the database \"" +
        database + "\" (locks of dblock itself work without them)");
  }
  if (applied.grants_lost) {
    log::warning(
        "this server drops the grants on a procedure that is replaced: grant EXECUTE again; `dblock migrate "
        "--print-grants USER`, for an application with --applications, prints the statements");
  }
}

Result<std::vector<std::string>> grants_of(const MigrateRequest& request, const store::Settings& settings) {
  using Grants = Result<std::vector<std::string>>;
  const auto of_server = [&](const store::MariadbSettings& server) -> Grants {
    if (request.applications) return store::application_grants_for(request.grants_user, server.database);
    return store::grants_for(request.grants_user, server.database, request.history.value_or(false));
  };
  const auto of_file = [](const store::SqliteSettings&) -> Grants {
    return fail(Errc::usage, "--print-grants is for MariaDB and MySQL; the embedded store knows no accounts");
  };
  return std::visit(Overloaded{of_server, of_file}, settings);
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
    DBLOCK_TRY(report.grants, grants_of(request, settings));
    return report;
  }
  const bool reads_only = request.action != MigrateRequest::Action::apply;
  const auto schema = store::open_schema(settings, {.reads_only = reads_only});
  const SilenceWatch watch(settings);
  report.schema_version = schema->version();
  if (request.action == MigrateRequest::Action::apply) {
    DBLOCK_TRY(auto applied, schema->apply());
    const auto* server = std::get_if<store::MariadbSettings>(&settings);
    report_applied(std::move(applied), server != nullptr ? server->database : "", report);
  } else {
    DBLOCK_TRY(report.states, schema->status());
  }
  DBLOCK_CHECK(switch_history(*schema, request, report));
  DBLOCK_TRY(report.procedures, schema->procedures());
  return report;
}

}  // namespace dblock::app
