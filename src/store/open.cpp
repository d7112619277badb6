#include "store/open.hpp"

#include <utility>
#include <variant>

#include "store/mariadb/factory.hpp"
#include "store/rules/lock_table.hpp"
#include "store/rules/table_lease_store.hpp"
#include "store/sqlite/factory.hpp"

namespace dblock::store {

std::unique_ptr<Database> open_database(const Settings& settings, const SessionOptions& options,
                                        Clock& clock) {
  if (const auto* embedded = std::get_if<SqliteSettings>(&settings))
    return sqlite::make_database(*embedded, options, clock);
  return mariadb::make_database(std::get<MariadbSettings>(settings), options);
}

std::unique_ptr<lease::LeaseStore> open_store(const Settings& settings, const SessionOptions& options,
                                              Clock& clock) {
  auto table = std::make_unique<LockTable>(open_database(settings, options, clock));
  return std::make_unique<TableLeaseStore>(std::move(table), clock);
}

std::unique_ptr<SchemaAdmin> open_schema(const Settings& settings, const SessionOptions& options) {
  if (const auto* embedded = std::get_if<SqliteSettings>(&settings))
    return sqlite::make_schema_admin(*embedded, options);
  return mariadb::make_schema_admin(std::get<MariadbSettings>(settings), options);
}

Result<std::string> client_library_in_use() {
  return mariadb::client_library_in_use();
}

}  // namespace dblock::store
