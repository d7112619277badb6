#include "store/sqlite/schema.hpp"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "store/parameters.hpp"
#include "store/schema.hpp"
#include "store/sqlite/factory.hpp"
#include "store/sqlite/sql.hpp"

namespace dblock::store::sqlite {
namespace {

// "dblk", in the file's header. By it file(1) and dblock recognize a store.
constexpr std::int64_t k_application_id = 0x64626c6b;

// Small pages make small commits. Even a busy store's rows fill few pages.
constexpr std::string_view k_page_size = "PRAGMA page_size=1024";

constexpr std::string_view k_version = "PRAGMA user_version";

struct Header {
  unsigned version = 0;  // 0: no tables yet
  std::int64_t application_id = 0;
};

Result<std::int64_t> read_number(Connection& connection, std::string_view sql) {
  DBLOCK_TRY(const auto rows, connection.run(sql, {}, Phase::read));
  return rows.empty() ? 0 : number(rows.front()[0]);
}

Result<Header> read_header(Connection& connection) {
  DBLOCK_TRY(const auto version, read_number(connection, k_version));
  DBLOCK_TRY(const auto id, read_number(connection, "PRAGMA application_id"));
  return Header{static_cast<unsigned>(version), id};
}

// True if a newer store says that this older binary may use it. False if that cannot be read.
bool serves_this(Connection& connection, unsigned version) {
  const auto rows = connection.run(sql(Verb::newest_version), {}, Phase::read);
  return rows && !rows->empty() && unsigned_number(rows->front()[0]) == version &&
         unsigned_number(rows->front()[1]) <= schema_version();
}

// Succeeds for a store that this binary can use, and for an empty file that may become one.
Result<Header> judge_header(Connection& connection, const Header& header) {
  if (header.application_id == k_application_id) {
    if (header.version <= schema_version()) return header;
    if (serves_this(connection, header.version)) return header;
    return connection.attempt().refuse(
        Errc::schema, "the store " + connection.where() + " has version " + std::to_string(header.version) +
                          ", newer than this dblock, which knows " + std::to_string(schema_version()) +
                          "; upgrade dblock");
  }
  DBLOCK_TRY(const auto objects, read_number(connection, sql(Verb::count_objects)));
  if (header.application_id == 0 && header.version == 0 && objects == 0) return header;
  return connection.refuse(Errc::config,
                           "the file is another program's SQLite database and is left alone; choose "
                           "another place with --db sqlite:PATH");
}

// Reads and judges the header. That takes several reads, and another process may create the tables in
// between. So unless the first read shows a store, all reads happen in one view of the file.
Result<Header> look(Connection& connection) {
  DBLOCK_TRY(Header header, read_header(connection));
  if (header.application_id == k_application_id) return judge_header(connection, header);
  const auto read_and_judge = [&]() -> Result<void> {
    DBLOCK_TRY(header, read_header(connection));
    DBLOCK_TRY(header, judge_header(connection, header));
    return {};
  };
  DBLOCK_CHECK(connection.in_view(read_and_judge));
  return header;
}

// Sets page size and write-ahead log, which the file remembers. Setting the mode locks the whole store for a
// moment; run() waits for other processes.
Result<void> choose_journal(Connection& connection) {
  DBLOCK_CHECK(connection.run(k_page_size, {}, Phase::write));
  DBLOCK_CHECK(connection.run("PRAGMA journal_mode=WAL", {}, Phase::write));
  return {};
}

// Shortens SQL: SQLite stores the text of each CREATE statement and parses it each time it opens the store.
std::string without_comments(std::string_view sql) {
  std::string text;
  while (!sql.empty()) {
    const auto end = sql.find('\n');
    const std::string_view line = sql.substr(0, end);
    const std::string_view code = trimmed(line.substr(0, line.find("--")));
    text.append(code).append(code.empty() ? "" : " ");
    sql.remove_prefix(end == std::string_view::npos ? sql.size() : end + 1);
  }
  return text;
}

Result<void> apply_missing(Connection& connection) {
  // Reads the version again: another process may have migrated in the meantime.
  DBLOCK_TRY(const Header header, read_header(connection));
  if (header.version == 0) DBLOCK_CHECK(connection.check_unused());
  for (const auto& migration : migrations()) {
    if (migration.version <= header.version) continue;
    const Attempt::Part part(connection.attempt(), migration.name);
    DBLOCK_CHECK(connection.run_script(without_comments(migration.sql)));
    DBLOCK_CHECK(connection.run(sql(Verb::record_migration), migration_parameters(migration), Phase::write));
  }
  return connection.run_script("PRAGMA application_id=" + std::to_string(k_application_id) +
                               ";PRAGMA user_version=" + std::to_string(schema_version()));
}

class SqliteSchemaAdmin final : public SchemaAdmin {
 public:
  SqliteSchemaAdmin(const SqliteSettings& settings, const SessionOptions& options)
      : connection_(settings, options, clock_, SchemaCheck::off) {}

  unsigned version() const override { return schema_version(); }

  Result<std::vector<MigrationState>> status() override {
    const Connection::Call call(connection_, "cannot read the schema's version");
    return read_state();
  }

  Result<Applied> apply() override {
    const Connection::Call call(connection_, "cannot migrate the schema");
    DBLOCK_TRY(const auto before, read_state());
    DBLOCK_CHECK(ensure_schema(connection_));
    Applied done;
    for (const auto& state : before) {
      if (!state.applied_at) done.migrations.push_back(state.migration);
    }
    return done;
  }

  Result<bool> keeps_history() override {
    const Connection::Call call(connection_, "cannot look whether a history is kept");
    DBLOCK_CHECK(connection_.ensure_open());
    return sqlite::keeps_history(connection_);
  }

  Result<void> keep_history(bool on) override {
    const Connection::Call call(connection_, on ? "cannot begin the history" : "cannot end the history");
    DBLOCK_CHECK(connection_.ensure_open());
    return sqlite::keep_history(connection_, on);
  }

 private:
  Result<std::vector<MigrationState>> read_state() {
    DBLOCK_CHECK(connection_.ensure_open());
    DBLOCK_TRY(const Header header, look(connection_));
    std::map<unsigned, lease::ServerTime> applied;
    if (header.version > 0) {
      DBLOCK_TRY(const auto rows, connection_.run(sql(Verb::applied_versions), {}, Phase::read));
      for (const auto& row : rows) applied[static_cast<unsigned>(unsigned_number(row[0]))] = {micros(row[1])};
    }
    std::vector<MigrationState> states;
    for (const auto& migration : migrations()) {
      const auto at = applied.find(migration.version);
      states.push_back({migration, at == applied.end() ? std::nullopt : std::optional(at->second)});
    }
    return states;
  }

  SystemClock clock_;
  Connection connection_;
};

}  // namespace

Result<void> ensure_schema(Connection& connection) {
  // Nearly every file is a store of this version, so check that first, with the fewest reads.
  const auto version = read_number(connection, k_version);
  if (version && *version == schema_version() && connection.read_changes()) return {};
  DBLOCK_TRY(const Header header, look(connection));
  if (header.version < schema_version()) {
    if (header.version == 0) DBLOCK_CHECK(choose_journal(connection));
    DBLOCK_CHECK(connection.in_transaction([&] { return apply_missing(connection); }));
    // A new store's tables must not exist in its log alone.
    if (header.version == 0) connection.empty_log();
  }
  DBLOCK_CHECK(connection.read_changes());
  return {};
}

Result<bool> keeps_history(Connection& connection) {
  DBLOCK_TRY(const auto rows, connection.run(sql(Verb::history_state), {}, Phase::read));
  return !rows.empty() && number(rows.front()[0]) > 0;
}

Result<void> keep_history(Connection& connection, bool on) {
  return connection.in_transaction([&]() -> Result<void> {
    const std::vector<Verb> begin{Verb::create_history, Verb::create_history_index, Verb::begin_history};
    for (const Verb verb : on ? begin : std::vector{Verb::end_history})
      DBLOCK_CHECK(connection.run_script(std::string(sql(verb))));
    // Changes a row, because in_transaction() rolls back a transaction without changes.
    return connection.run_script(std::string(sql(Verb::touch)));
  });
}

std::unique_ptr<SchemaAdmin> make_schema_admin(const SqliteSettings& settings,
                                               const SessionOptions& options) {
  return std::make_unique<SqliteSchemaAdmin>(settings, options);
}

}  // namespace dblock::store::sqlite
