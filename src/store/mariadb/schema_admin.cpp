// Migrations on MariaDB and MySQL. Both commit at each DDL statement, so there is no transaction to lean on:
// every migration is written so that running it twice does no harm, and is recorded only after it ran.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "store/mariadb/connection.hpp"
#include "store/mariadb/factory.hpp"
#include "store/mariadb/literals.hpp"
#include "store/mariadb/migrations.hpp"

namespace dblock::store::mariadb {
namespace {

// "Already there": another host ran the same migration a moment ago (or an earlier try died half-way).
constexpr std::array k_already_done{k_table_exists, 1060U /* column */, 1061U /* index */,
                                    1091U /* no such key */};

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
      return {};
    DBLOCK_CHECK(take_turn(attempt));
    DBLOCK_TRY(states, read_state(attempt));
    std::vector<Migration> applied;
    for (const auto& state : states) {
      if (state.applied_at) continue;
      DBLOCK_TRY(const bool by_us, apply_one(state.migration, attempt));
      if (by_us) applied.push_back(state.migration);
    }
    connection_.close();  // gives the turn up as well
    return applied;
  }

 private:
  Result<std::vector<MigrationState>> read_state(const std::string& attempt) {
    DBLOCK_CHECK(connection_.ensure_open(attempt));
    std::map<unsigned, lease::ServerTime> applied;
    auto rows = connection_.read(
        "SELECT version,TIMESTAMPDIFF(MICROSECOND,'1970-01-01',applied_at) FROM dblock_migration", attempt);
    if (!rows && rows.error().native != k_no_such_table) return std::unexpected(std::move(rows.error()));
    if (rows) {
      for (const auto& row : *rows)
        applied[static_cast<unsigned>(unsigned_number(row[0]))] = {Micros{number(row[1])}};
    }
    if (!applied.empty() && applied.rbegin()->first > schema_version())
      return too_new(applied.rbegin()->first);
    // A missing table ended the session; the caller goes on with this one.
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

  // Two hosts at once do no harm; taking turns only spares them each other's "already exists". So the answer
  // does not matter, and neither does a server that has no such locks.
  Result<void> take_turn(const std::string& attempt) {
    auto turn = connection_.read("SELECT GET_LOCK(CONCAT('dblock.migrate.',MD5(DATABASE())),3)", attempt);
    if (!turn && turn.error().code != Errc::internal) return connection_.ensure_open(attempt);
    return {};
  }

  Result<bool> apply_one(const Migration& migration, const std::string& attempt) {
    const std::string what = attempt + " (" + std::string(migration.name) + ")";
    DBLOCK_CHECK(connection_.ensure_open(what));
    if (auto ran = connection_.change(std::string(migration.sql), what); !ran) {
      if (!already_done(ran.error().native)) return std::unexpected(explained(std::move(ran.error())));
      DBLOCK_CHECK(connection_.ensure_open(what));
    }
    auto recorded =
        connection_.change("INSERT INTO dblock_migration (version,name,applied_at) VALUES (" +
                               std::to_string(migration.version) + "," +
                               text_literal(migration.name, migration.name.size()) + ",UTC_TIMESTAMP(6))",
                           what);
    if (recorded) return true;
    if (recorded.error().native == k_duplicate_key) return false;  // another host was faster
    return std::unexpected(explained(std::move(recorded.error())));
  }

  Error explained(Error error) const {
    if (error.code == Errc::denied) {
      error.message += "; migrating needs CREATE, ALTER, INDEX, SELECT and INSERT on the database \"" +
                       connection_.settings().database + "\"";
    }
    return error;
  }

  Connection connection_;
};

}  // namespace

std::unique_ptr<SchemaAdmin> make_schema_admin(const MariadbSettings& settings,
                                               const SessionOptions& options) {
  return std::make_unique<MariadbSchemaAdmin>(settings, options);
}

}  // namespace dblock::store::mariadb
