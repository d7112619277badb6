// Migrations on MariaDB and MySQL. Both commit at each DDL statement, so no transaction protects a migration.
// Instead each migration may run twice without harm, and is recorded only after it ran.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "store/mariadb/factory.hpp"
#include "store/mariadb/session/connection.hpp"
#include "store/mariadb/sql.hpp"
#include "store/parameters.hpp"

namespace dblock::store::mariadb {
namespace {

constexpr unsigned k_routine_exists = 1304;
// "Already there": another host has just run the same migration, or an earlier try died half-way.
constexpr std::array k_already_done{k_table_exists, 1060U /* column */, 1061U /* index */, k_duplicate_key,
                                    1091U /* no such key */};
// Refusals that concern only procedures, not the account's other rights: with binary logging, CREATE ROUTINE
// does not suffice; SUPER is missing for the definer.
constexpr std::array k_procedure_refused{1227U, 1418U, 1419U};
constexpr std::string_view k_view = "dblock_now";

bool already_done(unsigned native) {
  return std::ranges::find(k_already_done, native) != k_already_done.end();
}

class MariadbSchemaAdmin final : public SchemaAdmin {
 public:
  MariadbSchemaAdmin(const MariadbSettings& settings, const SessionOptions& options)
      : connection_(settings, options, SchemaCheck::off),
        where_(settings.display()),
        database_(settings.database) {}

  unsigned version() const override { return schema_version(); }

  Result<std::vector<MigrationState>> status() override {
    const Connection::Call call(connection_, "cannot read the schema's version");
    return read_state();
  }

  Result<Applied> apply() override {
    const Connection::Call call(connection_, "cannot migrate the schema");
    Applied done;
    DBLOCK_TRY(auto states, read_state());
    if (std::ranges::any_of(states, is_missing)) {
      DBLOCK_CHECK(take_turn());
      DBLOCK_TRY(states, read_state());
    }
    for (const auto& state : states) {
      if (!is_missing(state)) continue;
      DBLOCK_TRY(const bool by_us, apply_one(state.migration));
      if (by_us) done.migrations.push_back(state.migration);
    }
    DBLOCK_CHECK(make_missing_view(done));
    DBLOCK_CHECK(install_procedures(done));
    connection_.close();  // also frees the named lock of take_turn()
    return done;
  }

  Result<std::optional<ProceduresState>> procedures() override {
    const Connection::Call call(connection_, "cannot look for dblock's procedures");
    DBLOCK_CHECK(connection_.ensure_open());
    DBLOCK_TRY(auto state, read_procedures());
    return state;
  }

  Result<bool> keeps_history() override {
    const Connection::Call call(connection_, "cannot look whether a history is kept");
    DBLOCK_CHECK(connection_.ensure_open());
    DBLOCK_TRY(const auto found, connection_.read(render(Verb::history_state)));
    return !found.empty() && number(found.front()[0]) != 0;
  }

  Result<void> keep_history(bool on) override {
    const Connection::Call call(connection_, on ? "cannot begin the history" : "cannot end the history");
    DBLOCK_CHECK(connection_.ensure_open());
    if (on) DBLOCK_CHECK(connection_.change(render(Verb::create_history)));
    DBLOCK_CHECK(connection_.change(render(on ? Verb::begin_history : Verb::end_history)));
    return {};
  }

 private:
  static bool is_missing(const MigrationState& state) { return !state.applied_at; }

  Result<bool> is_there(Verb verb) {
    DBLOCK_TRY(const auto found, connection_.read(render(verb)));
    return !found.empty() && number(found.front()[0]) > 0;
  }

  // The view dblock_now is only for people; dblock does not need it.
  static bool makes_view(const Migration& migration) {
    return migration.name.find(k_view) != std::string_view::npos;
  }

  // Makes the view where an earlier account was not allowed to, or a dump left it out.
  Result<void> make_missing_view(Applied& done) {
    DBLOCK_TRY(const bool there, is_there(Verb::view_is_there));
    if (there) return {};
    const auto view = std::ranges::find_if(migrations(), makes_view);
    const Attempt::Part part(connection_.attempt(), view->name);
    DBLOCK_TRY(const bool ran, run(*view));
    const bool listed =
        std::ranges::find(done.migrations, view->name, &Migration::name) != done.migrations.end();
    if (ran && !listed) done.migrations.push_back(*view);
    return {};
  }

  // False: it was done already, or creates a view that the server refuses.
  Result<bool> run(const Migration& migration) {
    DBLOCK_CHECK(connection_.ensure_open());
    auto ran = connection_.change(std::string(migration.sql));
    if (ran) return true;
    Error error = std::move(ran.error());
    DBLOCK_CHECK(connection_.ensure_open());
    if (already_done(error.native)) return false;
    if (makes_view(migration) && error.code == Errc::denied) return false;
    return std::unexpected(explained(std::move(error)));
  }

  Result<ProceduresState> read_procedures() {
    DBLOCK_TRY(const auto found, connection_.read(render(Verb::installed_procedures)));
    std::map<std::string, std::uint64_t> versions;
    for (const auto& row : found) versions[row[0].value_or("")] = unsigned_number(row[1]);
    ProceduresState state;
    for (const auto& procedure : mariadb::procedures()) {
      const auto installed = versions.find(std::string(procedure.name));
      if (installed == versions.end()) {
        state.missing.push_back(procedure);
      } else {
        (installed->second < procedures_version() ? state.outdated : state.there).push_back(procedure);
      }
    }
    return state;
  }

  // A newer version stays, for the sake of the newer dblock that installed it. Where the server refuses,
  // dblock does without the procedures; but an outdated one must not be taken for its replacement.
  Result<void> install_procedures(Applied& done) {
    DBLOCK_CHECK(connection_.ensure_open());
    DBLOCK_TRY(const auto state, read_procedures());
    for (const auto* const some : {&state.missing, &state.outdated}) {
      for (const auto& procedure : *some) {
        const Attempt::Part part(connection_.attempt(), procedure.name);
        auto installed = install(procedure, some == &state.outdated, done);
        if (!installed && (some == &state.outdated || !is_refusal(installed.error())))
          return std::unexpected(explained(std::move(installed.error())));
        if (installed) continue;
        done.refusal = std::move(installed.error().message);
        return {};
      }
    }
    return {};
  }

  static bool is_refusal(const Error& error) {
    return error.code == Errc::denied ||
           std::ranges::find(k_procedure_refused, error.native) != k_procedure_refused.end();
  }

  Result<void> install(const Procedure& procedure, bool outdated, Applied& done) {
    DBLOCK_CHECK(connection_.ensure_open());
    auto created = connection_.change(std::string(procedure.sql));
    // MySQL cannot replace a procedure.
    if (!created && created.error().native == k_routine_exists && outdated) {
      DBLOCK_CHECK(connection_.ensure_open());
      DBLOCK_CHECK(connection_.change("DROP PROCEDURE " + std::string(procedure.name)));
      created = connection_.change(std::string(procedure.sql));
      done.grants_lost = true;
    }
    if (created) done.procedures.push_back(procedure);
    // Another host was faster.
    if (created || created.error().native == k_routine_exists) return {};
    return std::unexpected(std::move(created.error()));
  }

  Result<std::vector<MigrationState>> read_state() {
    DBLOCK_CHECK(connection_.ensure_open());
    std::map<unsigned, lease::ServerTime> applied;
    unsigned serves = 0;
    auto rows = connection_.read(render(Verb::applied_versions));
    if (!rows && rows.error().native != k_no_such_table) return std::unexpected(std::move(rows.error()));
    if (rows) {
      for (const auto& row : *rows) {
        applied[static_cast<unsigned>(unsigned_number(row[0]))] = {micros(row[2])};
        serves = std::max(serves, static_cast<unsigned>(unsigned_number(row[1])));
      }
    }
    if (serves > schema_version()) return too_new(applied.rbegin()->first);
    // The error of a missing table closed the session; open another for the caller.
    DBLOCK_CHECK(connection_.ensure_open());
    std::vector<MigrationState> states;
    for (const auto& migration : migrations()) {
      const auto at = applied.find(migration.version);
      states.push_back({migration, at == applied.end() ? std::nullopt : std::optional(at->second)});
    }
    return states;
  }

  std::unexpected<Error> too_new(unsigned found) const {
    return fail(Errc::schema, "dblock's tables on " + where_ + " have version " + std::to_string(found) +
                                  ", newer than this dblock, which knows " +
                                  std::to_string(schema_version()) + "; upgrade dblock");
  }

  // Two hosts that migrate at once should not meet each other's "already exists". It would do no harm, so
  // neither the answer matters nor a server without named locks.
  Result<void> take_turn() {
    auto turn = connection_.read(render(Verb::migrate_alone));
    if (!turn && turn.error().code != Errc::internal) return connection_.ensure_open();
    return {};
  }

  Result<bool> apply_one(const Migration& migration) {
    const Attempt::Part part(connection_.attempt(), migration.name);
    DBLOCK_CHECK(run(migration));
    auto recorded = connection_.change(render(Verb::record_migration, migration_parameters(migration)));
    if (recorded) return true;
    if (recorded.error().native == k_duplicate_key) return false;  // another host was faster
    return std::unexpected(explained(std::move(recorded.error())));
  }

  Error explained(Error error) const {
    if (error.code == Errc::denied) {
      error.message +=
          "; migrating needs CREATE, ALTER, INDEX, SELECT and INSERT, for the procedures CREATE ROUTINE, "
          "ALTER ROUTINE and UPDATE, and for dblock_now CREATE VIEW, on the database \"" +
          database_ + "\"";
    }
    return error;
  }

  Connection connection_;
  const std::string where_;
  const std::string database_;
};

}  // namespace

std::unique_ptr<SchemaAdmin> make_schema_admin(const MariadbSettings& settings,
                                               const SessionOptions& options) {
  return std::make_unique<MariadbSchemaAdmin>(settings, options);
}

}  // namespace dblock::store::mariadb
