#include "store/open.hpp"

#include "store/mariadb/factory.hpp"

namespace dblock::store {

std::unique_ptr<lease::LeaseStore> open_store(const Settings& settings, const SessionOptions& options,
                                              Clock& clock) {
  return mariadb::make_lease_store(settings, options, clock);
}

std::unique_ptr<SchemaAdmin> open_schema(const Settings& settings, const SessionOptions& options) {
  return mariadb::make_schema_admin(settings, options);
}

}  // namespace dblock::store
