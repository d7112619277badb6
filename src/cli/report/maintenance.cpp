// Reports of reap and migrate.
#include "base/text.hpp"
#include "cli/report/json.hpp"
#include "cli/report/report.hpp"

namespace dblock::cli {
namespace {

std::string counted(std::uint64_t n, std::string_view one, std::string_view many) {
  return std::to_string(n) + " " + std::string(n == 1 ? one : many);
}

std::string abandoned_line(const lease::LockStatus& status, bool dry_run) {
  std::string text = dry_run ? "would free: " : "freed: ";
  text += escape_untrusted(status.key) + ", abandoned by " + lease::display_holder(status);
  if (status.acquired_at) text += ", held since " + lease::format_time(*status.acquired_at);
  if (status.expires_at) text += ", expired at " + lease::format_time(*status.expires_at);
  return text + "\n";
}

Json json_migration(const store::MigrationState& state) {
  return {{"version", state.migration.version},
          {"name", state.migration.name},
          {"applied_at", json_time(state.applied_at)}};
}

// For one migration: the line of apply or --status, or with --dry-run the SQL if it is still to be run.
std::string migration_text(const store::MigrationState& state, app::MigrateRequest::Action action) {
  const std::string name(state.migration.name);
  if (action == app::MigrateRequest::Action::apply) return "applied: " + name + "\n";
  if (action == app::MigrateRequest::Action::status) {
    return (state.applied_at ? "applied " + lease::format_time(*state.applied_at) + ": " : "missing: ") +
           name + "\n";
  }
  if (state.applied_at) return {};
  std::string sql(state.migration.sql);
  while (sql.ends_with('\n') || sql.ends_with(';')) sql.pop_back();
  return "-- " + name + "\n" + sql + ";\n";
}

Json names_of(const std::vector<store::Procedure>& procedures) {
  auto names = Json::array();
  for (const auto& procedure : procedures) names.push_back(procedure.name);
  return names;
}

// "dblock_renew(), dblock_release()"
std::string calls(const std::vector<store::Procedure>& procedures) {
  std::string text;
  for (const auto& procedure : procedures)
    text += (text.empty() ? "" : ", ") + std::string(procedure.name) + "()";
  return text;
}

bool all_there(const store::ProceduresState& state) {
  return state.missing.empty() && state.outdated.empty();
}

std::string procedures_text(const store::ProceduresState& state) {
  std::string text;
  if (!state.there.empty()) text += "callable: " + calls(state.there) + "\n";
  if (!state.outdated.empty()) text += "of an older version: " + calls(state.outdated) + "\n";
  if (!state.missing.empty())
    text += "not there, or not for this account to call: " + calls(state.missing) + "\n";
  return text;
}

// Statements for the mariadb client, which takes the semicolons inside a procedure for the statement's end. A
// procedure keeps the sql_mode under which it was made: this is the one of dblock's sessions.
std::string procedures_sql(const std::vector<store::Procedure>& procedures) {
  std::string text;
  for (const auto& procedure : procedures) {
    text += "-- " + std::string(procedure.name) +
            "\nSET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';\nDELIMITER //\n" +
            std::string(procedure.sql) + "\n//\nDELIMITER ;\n";
  }
  return text;
}

std::string migrated_json(const app::MigrateReport& report, app::MigrateRequest::Action action) {
  using Action = app::MigrateRequest::Action;
  auto document = json_document();
  if (action == Action::print_grants) {
    document["grants"] = report.grants;
    return to_line(document);
  }
  document["schema_version"] = report.schema_version;
  document["migrations"] = Json::array();
  for (const auto& state : report.states) {
    if (action == Action::dry_run && state.applied_at) continue;
    document["migrations"].push_back(json_migration(state));
  }
  if (report.history) document["history"] = *report.history;
  if (action == Action::apply) document["installed"] = names_of(report.installed);
  if (action != Action::dry_run)
    document["procedures"] = report.procedures ? Json(all_there(*report.procedures)) : Json();
  return to_line(document);
}

}  // namespace

std::string report_reaped(const lease::ReapReport& report, const app::ReapRequest& request,
                          const OutputOptions& output) {
  if (output.json) {
    auto document = json_document();
    document["dry_run"] = request.dry_run;
    document["abandoned"] = Json::array();
    for (const auto& status : report.abandoned) document["abandoned"].push_back(json_lock(status));
    document["forgotten"] = report.forgotten;
    document["forgotten_runs"] = report.forgotten_runs;
    return to_line(document);
  }
  std::string text;
  for (const auto& status : report.abandoned) text += abandoned_line(status, request.dry_run);
  // A round of --every that found nothing prints nothing, so that it does not fill a log.
  if (request.every && report.abandoned.empty() && report.forgotten + report.forgotten_runs == 0) return text;
  return text + counted(report.abandoned.size(), "lease", "leases") +
         (request.dry_run ? " to free, " : " freed, ") + counted(report.forgotten, "idle row", "idle rows") +
         (report.forgotten_runs > 0 ? ", " + counted(report.forgotten_runs, "past run", "past runs") : "") +
         (request.dry_run ? " to delete\n" : " deleted\n");
}

std::string report_migrated(const app::MigrateReport& report, const app::MigrateRequest& request,
                            const OutputOptions& output) {
  using Action = app::MigrateRequest::Action;
  if (output.json) return migrated_json(report, request.action);
  std::string text;
  if (request.action == Action::print_grants) {
    for (const auto& grant : report.grants) text += grant + (grant.ends_with(';') ? "\n" : ";\n");
    return text;
  }
  for (const auto& state : report.states) text += migration_text(state, request.action);
  if (!report.installed.empty()) text += "installed: " + calls(report.installed) + "\n";
  if (request.action == Action::status && report.procedures) text += procedures_text(*report.procedures);
  if (request.action == Action::dry_run && report.procedures) {
    text += procedures_sql(report.procedures->missing) + procedures_sql(report.procedures->outdated);
  }
  if (report.history)
    text += *report.history ? "history: runs that end are recorded\n"
                            : "history: runs that end are not recorded\n";
  if (!text.empty() || request.action == Action::status) return text;
  const auto version = "version " + std::to_string(report.schema_version);
  return request.action == Action::dry_run ? "-- nothing to do: the schema is at " + version + "\n"
                                           : "nothing to do: the schema is at " + version + "\n";
}

}  // namespace dblock::cli
