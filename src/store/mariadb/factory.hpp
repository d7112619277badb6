// The adapters of this folder, for store/open and store/facts alone.
#pragma once

#include <memory>

#include "base/clock.hpp"
#include "lease/store.hpp"
#include "store/config/settings.hpp"
#include "store/facts.hpp"
#include "store/open.hpp"
#include "store/schema.hpp"

namespace dblock::store::mariadb {

[[nodiscard]] std::unique_ptr<lease::LeaseStore> make_lease_store(const MariadbSettings& settings,
                                                                  const SessionOptions& options,
                                                                  Clock& clock);
[[nodiscard]] std::unique_ptr<SchemaAdmin> make_schema_admin(const MariadbSettings& settings,
                                                             const SessionOptions& options);
[[nodiscard]] Result<std::string> client_library_in_use();
// As store::gather_facts().
[[nodiscard]] ServerFacts gather_facts(const MariadbSettings& settings);

}  // namespace dblock::store::mariadb
