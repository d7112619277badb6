#include "support/local_file.hpp"

#include <sqlite3.h>

#include <filesystem>
#include <stdexcept>

namespace dblock::test {
namespace {

// Closing is left to the end of scope also when opening has failed: SQLite wants it either way.
class File {
 public:
  explicit File(const std::string& path) {
    check(::sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READWRITE, nullptr), path);
    // The last to leave would move the log into the database: not what the processes under test find then.
    check(::sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr), path);
    const auto limit = patience();
    check(::sqlite3_busy_timeout(handle_, static_cast<int>(limit.count())), path);
  }
  ~File() { ::sqlite3_close(handle_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::vector<Row> sql(const std::string& query) {
    sqlite3_stmt* statement = nullptr;
    check(::sqlite3_prepare_v2(handle_, query.c_str(), -1, &statement, nullptr), query);
    std::vector<Row> rows;
    int step = 0;
    while ((step = ::sqlite3_step(statement)) == SQLITE_ROW) rows.push_back(row_of(statement));
    ::sqlite3_finalize(statement);
    if (step != SQLITE_DONE) fail(query);
    return rows;
  }

 private:
  static Row row_of(sqlite3_stmt* statement) {
    Row row;
    for (int i = 0; i < ::sqlite3_column_count(statement); ++i) {
      const void* const bytes = ::sqlite3_column_blob(statement, i);
      const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(statement, i));
      if (::sqlite3_column_type(statement, i) == SQLITE_NULL)
        row.emplace_back("NULL");
      else
        row.emplace_back(size == 0 ? std::string() : std::string(static_cast<const char*>(bytes), size));
    }
    return row;
  }
  void check(int code, const std::string& doing) {
    if (code != SQLITE_OK) fail(doing);
  }
  [[noreturn]] void fail(const std::string& doing) {
    const std::string message = ::sqlite3_errmsg(handle_);
    throw std::runtime_error(message + " in: " + doing.substr(0, 500));
  }
  sqlite3* handle_ = nullptr;
};

class LocalStore final : public StoreBackend {
 public:
  [[nodiscard]] std::string url() const override { return "sqlite:" + path(); }
  std::vector<Row> sql(const std::string& query) override { return sqlite_sql(path(), query); }
  [[nodiscard]] long long schema_version() override {
    return std::filesystem::exists(path()) ? std::stoll(sqlite_value(path(), "PRAGMA user_version")) : 0;
  }
  void set_schema_version(long long version, long long serves) override {
    sql("INSERT INTO dblock_schema VALUES (" + std::to_string(version) + ", " + std::to_string(serves) +
        ", 'by_a_test.sql', 0)");
    sql("PRAGMA user_version = " + std::to_string(version));
  }
  [[nodiscard]] std::string text(const std::string& bytes) const override {
    return "CAST(" + sql_hex(bytes) + " AS TEXT)";
  }
  [[nodiscard]] std::string micros_of(const std::string& time) const override { return time; }
  [[nodiscard]] std::string moved(const std::string& time, long long by) const override {
    return time + " + (" + std::to_string(by) + ")";
  }
  [[nodiscard]] std::string time_at(long long micros) const override { return std::to_string(micros); }
  [[nodiscard]] std::string more_columns() const override { return ", boot_id, boot_offset_us"; }

 private:
  [[nodiscard]] std::string path() const { return directory_.file("locks.db"); }
  TempDir directory_;
};

}  // namespace

std::vector<Row> sqlite_sql(const std::string& path, const std::string& query) {
  return File(path).sql(query);
}

std::string file_of(const Database& database) {
  return database.url().substr(std::string("sqlite:").size());
}

std::string sqlite_value(const std::string& path, const std::string& query) {
  const auto rows = sqlite_sql(path, query);
  return rows.empty() ? "" : rows.front().at(0);
}

struct SqliteWriter::Handle {
  explicit Handle(const std::string& path) : file(path) {}
  File file;
};

SqliteWriter::SqliteWriter(const std::string& path) : handle_(std::make_unique<Handle>(path)) {
  handle_->file.sql("BEGIN IMMEDIATE");
}
SqliteWriter::~SqliteWriter() = default;  // closing rolls back

std::unique_ptr<StoreBackend> new_local_store() {
  return std::make_unique<LocalStore>();
}

}  // namespace dblock::test
