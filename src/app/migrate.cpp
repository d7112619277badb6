// `dblock migrate`: bring dblock's tables to the version this binary needs.
#include <algorithm>
#include <utility>
#include <variant>

#include "app/database.hpp"
#include "app/use_cases.hpp"
#include "store/open.hpp"

namespace dblock::app {

using namespace std::chrono_literals;

Result<MigrateReport> migrate(const MigrateRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  MigrateReport report;
  if (request.action == MigrateRequest::Action::print_grants) {
    const auto* server = std::get_if<store::MariadbSettings>(&settings);
    if (server == nullptr)
      return fail(Errc::usage,
                  "--print-grants is for MariaDB and MySQL; the embedded store knows no accounts");
    DBLOCK_TRY(report.grants, store::grants_for(request.grants_user, server->database));
    return report;
  }
  const auto schema = store::open_schema(settings, {});
  report.schema_version = schema->version();
  if (request.action == MigrateRequest::Action::apply) {
    DBLOCK_TRY(const auto applied, schema->apply());
    for (const store::Migration& migration : applied) report.states.push_back({migration, std::nullopt});
    return report;
  }
  DBLOCK_TRY(report.states, schema->status());
  return report;
}

}  // namespace dblock::app
