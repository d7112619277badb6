#include "store/open.hpp"

#include <variant>

#include "store/mariadb/factory.hpp"
#include "store/sqlite/factory.hpp"

namespace dblock::store {

std::unique_ptr<lease::LeaseStore> open_store(const Settings& settings, const SessionOptions& options,
                                              Clock& clock) {
  if (const auto* embedded = std::get_if<SqliteSettings>(&settings))
    return sqlite::make_lease_store(*embedded, options, clock);
  return mariadb::make_lease_store(std::get<MariadbSettings>(settings), options, clock);
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
