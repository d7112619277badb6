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

// "Already there": another host has just run the same migration, or an earlier try died half-way.
constexpr std::array k_already_done{k_table_exists,  1060U /* column */,      1061U /* index */,
                                    k_duplicate_key, 1091U /* no such key */, 1304U /* routine */};
// Refusals that concern only routines, not the account's other rights: with binary logging, CREATE ROUTINE
// does not suffice; SUPER is missing for the definer.
constexpr std::array k_routine_refused{1227U, 1418U, 1419U};
constexpr std::string_view k_routine = "dblock_assert_held";
constexpr std::string_view k_view = "dblock_now";

bool already_done(unsigned native) {
  return std::ranges::find(k_already_done, native) != k_already_done.end();
}

class MariadbSchemaAdmin final : public SchemaAdmin {
 public:
  MariadbSchemaAdmin(const MariadbSettings& settings, const SessionOptions& options)
      : connection_(settings, options, SchemaCheck::off) {}

  unsigned version() const override { return schema_version(); }

  Result<std::vector<MigrationState>> status() override {
    const Connection::Call call(connection_);
    return read_state("cannot read the schema's version");
  }

  Result<std::vector<Migration>> apply() override {
    const Connection::Call call(connection_);
    const std::string attempt = "cannot migrate the schema";
    DBLOCK_TRY(auto states, read_state(attempt));
    if (std::ranges::all_of(states, [](const auto& state) { return state.applied_at.has_value(); }))
      return catch_up(attempt);
    DBLOCK_CHECK(take_turn(attempt));
    DBLOCK_TRY(states, read_state(attempt));
    std::vector<Migration> applied;
    for (const auto& state : states) {
      if (state.applied_at) continue;
      DBLOCK_TRY(const bool by_us, apply_one(state.migration, attempt));
      if (by_us) applied.push_back(state.migration);
    }
    connection_.close();  // also frees the named lock of take_turn()
    return applied;
  }

  Result<std::optional<RoutineState>> routine() override {
    const Connection::Call call(connection_);
    const std::string attempt = "cannot look for dblock's procedure";
    DBLOCK_CHECK(connection_.ensure_open(attempt));
    DBLOCK_TRY(const bool there, routine_is_there(attempt));
    return RoutineState{there, there ? std::string() : refusal_};
  }

  Result<bool> keeps_history() override {
    const Connection::Call call(connection_);
    const std::string attempt = "cannot look whether a history is kept";
    DBLOCK_CHECK(connection_.ensure_open(attempt));
    DBLOCK_TRY(const auto found, connection_.read(render(Verb::keeps_history), attempt));
    return !found.empty() && number(found.front()[0]) != 0;
  }

  Result<void> keep_history(bool on) override {
    const Connection::Call call(connection_);
    const std::string attempt = on ? "cannot begin the history" : "cannot end the history";
    DBLOCK_CHECK(connection_.ensure_open(attempt));
    if (on) DBLOCK_CHECK(connection_.change(render(Verb::create_history), attempt));
    const auto marked = connection_.change(render(on ? Verb::begin_history : Verb::end_history), attempt);
    if (marked || marked.error().native == k_duplicate_key) return {};
    return std::unexpected(marked.error());
  }

 private:
  static bool makes_routine(const Migration& migration) {
    return migration.name.find(k_routine) != std::string_view::npos;
  }

  Result<bool> routine_is_there(const std::string& attempt) {
    return is_there(Verb::routine_is_there, attempt);
  }

  Result<bool> is_there(Verb verb, const std::string& attempt) {
    DBLOCK_TRY(const auto found, connection_.read(render(verb), attempt));
    return !found.empty() && number(found.front()[0]) > 0;
  }

  // Creates the routine and view if they are missing: an earlier account was not allowed to create them, or a
  // dump left them out.
  Result<std::vector<Migration>> catch_up(const std::string& attempt) {
    DBLOCK_TRY(const bool has_routine, routine_is_there(attempt));
    DBLOCK_TRY(const bool has_view, is_there(Verb::view_is_there, attempt));
    std::vector<Migration> applied;
    for (const auto& migration : migrations()) {
      const bool missing = (makes_routine(migration) && !has_routine) || (makes_view(migration) && !has_view);
      if (!missing) continue;
      DBLOCK_TRY(const bool ran, run(migration, attempt + " (" + std::string(migration.name) + ")"));
      if (ran) applied.push_back(migration);
    }
    return applied;
  }

  // The view dblock_now is only for people; dblock does not need it.
  static bool makes_view(const Migration& migration) {
    return migration.name.find(k_view) != std::string_view::npos;
  }

  // False: it was done already, or creates a routine or view that the server refuses.
  Result<bool> run(const Migration& migration, const std::string& what) {
    DBLOCK_CHECK(connection_.ensure_open(what));
    auto ran = connection_.change(std::string(migration.sql), what);
    if (ran) return true;
    Error error = std::move(ran.error());
    DBLOCK_CHECK(connection_.ensure_open(what));
    if (already_done(error.native)) return false;
    if (makes_view(migration) && error.code == Errc::denied) return false;
    if (!makes_routine(migration)) return std::unexpected(explained(std::move(error)));
    return do_without_routine(std::move(error), what);
  }

  // False, since dblock works without the routine. But an error if an old routine exists: it must not be
  // taken for its replacement.
  Result<bool> do_without_routine(Error error, const std::string& what) {
    if (error.native == k_unknown_variable) return false;  // built without Galera: needs no replacement
    const bool refused = error.code == Errc::denied ||
                         std::ranges::find(k_routine_refused, error.native) != k_routine_refused.end();
    if (!refused) return std::unexpected(explained(std::move(error)));
    DBLOCK_TRY(const bool old_one_stays, routine_is_there(what));
    if (old_one_stays) return std::unexpected(explained(std::move(error)));
    refusal_ = std::move(error.message);
    return false;
  }

  Result<std::vector<MigrationState>> read_state(const std::string& attempt) {
    DBLOCK_CHECK(connection_.ensure_open(attempt));
    std::map<unsigned, lease::ServerTime> applied;
    unsigned serves = 0;
    auto rows = connection_.read(render(Verb::applied_versions), attempt);
    if (!rows && rows.error().native != k_no_such_table) return std::unexpected(std::move(rows.error()));
    if (rows) {
      for (const auto& row : *rows) {
        applied[static_cast<unsigned>(unsigned_number(row[0]))] = {micros(row[2])};
        serves = std::max(serves, static_cast<unsigned>(unsigned_number(row[1])));
      }
    }
    if (serves > schema_version()) return too_new(applied.rbegin()->first);
    // The error of a missing table closed the session; open another for the caller.
    DBLOCK_CHECK(connection_.ensure_open(attempt));
    std::vector<MigrationState> states;
    for (const auto& migration : migrations()) {
      const auto at = applied.find(migration.version);
      states.push_back({migration, at == applied.end() ? std::nullopt : std::optional(at->second)});
    }
    return states;
  }

  std::unexpected<Error> too_new(unsigned found) const {
    return fail(Errc::schema, "dblock's tables on " + connection_.settings().display() + " have version " +
                                  std::to_string(found) + ", newer than this dblock, which knows " +
                                  std::to_string(schema_version()) + "; upgrade dblock");
  }

  // Two hosts that migrate at once should not meet each other's "already exists". It would do no harm, so
  // neither the answer matters nor a server without named locks.
  Result<void> take_turn(const std::string& attempt) {
    auto turn = connection_.read(render(Verb::migrate_alone), attempt);
    if (!turn && turn.error().code != Errc::internal) return connection_.ensure_open(attempt);
    return {};
  }

  Result<bool> apply_one(const Migration& migration, const std::string& attempt) {
    const std::string what = attempt + " (" + std::string(migration.name) + ")";
    DBLOCK_CHECK(run(migration, what));
    auto recorded = connection_.change(render(Verb::record_migration, migration_parameters(migration)), what);
    if (recorded) return refusal_.empty() || !makes_routine(migration);
    if (recorded.error().native == k_duplicate_key) return false;  // another host was faster
    return std::unexpected(explained(std::move(recorded.error())));
  }

  Error explained(Error error) const {
    if (error.code == Errc::denied) {
      error.message +=
          "; migrating needs CREATE, ALTER, INDEX, SELECT and INSERT, for dblock_assert_held() CREATE "
          "ROUTINE "
          "and ALTER ROUTINE, and for dblock_now CREATE VIEW, on the database \"" +
          connection_.settings().database + "\"";
    }
    return error;
  }

  Connection connection_;
  std::string refusal_;
};

}  // namespace

std::unique_ptr<SchemaAdmin> make_schema_admin(const MariadbSettings& settings,
                                               const SessionOptions& options) {
  return std::make_unique<MariadbSchemaAdmin>(settings, options);
}

}  // namespace dblock::store::mariadb
