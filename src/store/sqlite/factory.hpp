// The adapters of this folder, for store/open alone.
#pragma once

#include <memory>

#include "base/clock.hpp"
#include "lease/store.hpp"
#include "store/config/settings.hpp"
#include "store/open.hpp"
#include "store/schema.hpp"

namespace dblock::store::sqlite {

[[nodiscard]] std::unique_ptr<lease::LeaseStore> make_lease_store(const SqliteSettings& settings,
                                                                  const SessionOptions& options,
                                                                  Clock& clock);
[[nodiscard]] std::unique_ptr<SchemaAdmin> make_schema_admin(const SqliteSettings& settings,
                                                             const SessionOptions& options);

}  // namespace dblock::store::sqlite
