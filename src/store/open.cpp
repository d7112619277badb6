#include "store/open.hpp"

#include <variant>

#include "base/overloaded.hpp"
#include "store/mariadb/factory.hpp"
#include "store/rules/table_lease_store.hpp"
#include "store/sqlite/factory.hpp"

namespace dblock::store {

std::unique_ptr<Database> open_database(const Settings& settings, const SessionOptions& options,
                                        Clock& clock) {
  return std::visit(
      Overloaded{[&](const MariadbSettings& server) { return mariadb::make_database(server, options); },
                 [&](const SqliteSettings& file) { return sqlite::make_database(file, options, clock); }},
      settings);
}

std::unique_ptr<lease::LockBook> open_store(const Settings& settings, const SessionOptions& options,
                                            Clock& clock) {
  return std::make_unique<TableLeaseStore>(open_database(settings, options, clock), clock);
}

std::unique_ptr<SchemaAdmin> open_schema(const Settings& settings, const SessionOptions& options) {
  return std::visit(
      Overloaded{[&](const MariadbSettings& server) { return mariadb::make_schema_admin(server, options); },
                 [&](const SqliteSettings& file) { return sqlite::make_schema_admin(file, options); }},
      settings);
}

Facts gather_facts(const Settings& settings, const std::optional<lease::OwnerId>& caller) {
  return std::visit(
      Overloaded{
          [&](const MariadbSettings& server) -> Facts { return mariadb::gather_facts(server, caller); },
          [](const SqliteSettings& file) -> Facts { return sqlite::gather_facts(file); }},
      settings);
}

Result<std::string> client_library_in_use() {
  return mariadb::client_library_in_use();
}

}  // namespace dblock::store
