// The embedded store's file, seen by the sqlite3 library and not by dblock.
#pragma once

#include <string>
#include <vector>

#include "support/database.hpp"

namespace dblock::test {

// One statement on the file at `path`, over a connection of its own that leaves the write-ahead log alone;
// throws with SQLite's message.
std::vector<Row> sqlite_sql(const std::string& path, const std::string& query);
[[nodiscard]] std::string sqlite_value(const std::string& path, const std::string& query);

// The file of a database whose store is the embedded one.
[[nodiscard]] std::string file_of(const Database& database);

// Holds the file's write lock, as a stuck or slow writer would.
class SqliteWriter {
 public:
  explicit SqliteWriter(const std::string& path);
  ~SqliteWriter();  // gives it back
  SqliteWriter(const SqliteWriter&) = delete;
  SqliteWriter& operator=(const SqliteWriter&) = delete;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

// A store in a directory of its own; the file comes with dblock's first use of it.
[[nodiscard]] std::unique_ptr<StoreBackend> new_local_store();

}  // namespace dblock::test
