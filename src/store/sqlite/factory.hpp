// Makes the adapters of this folder. Only store/open includes this header.
#pragma once

#include <memory>

#include "base/clock.hpp"
#include "store/config/settings.hpp"
#include "store/database.hpp"
#include "store/facts.hpp"
#include "store/schema.hpp"
#include "store/session_options.hpp"

namespace dblock::store::sqlite {

[[nodiscard]] std::unique_ptr<Database> make_database(const SqliteSettings& settings,
                                                      const SessionOptions& options, Clock& clock);
[[nodiscard]] std::unique_ptr<SchemaAdmin> make_schema_admin(const SqliteSettings& settings,
                                                             const SessionOptions& options);
// Implements store::gather_facts() for files. Neither creates nor migrates a store.
[[nodiscard]] FileFacts gather_facts(const SqliteSettings& settings);

}  // namespace dblock::store::sqlite
