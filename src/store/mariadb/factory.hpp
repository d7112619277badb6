// Makes the adapters of this folder. Only store/open includes this header.
#pragma once

#include <memory>

#include "store/config/settings.hpp"
#include "store/database.hpp"
#include "store/facts.hpp"
#include "store/schema.hpp"
#include "store/session_options.hpp"

namespace dblock::store::mariadb {

[[nodiscard]] std::unique_ptr<Database> make_database(const MariadbSettings& settings,
                                                      const SessionOptions& options);
[[nodiscard]] std::unique_ptr<SchemaAdmin> make_schema_admin(const MariadbSettings& settings,
                                                             const SessionOptions& options);
// Versions of the client library and its TLS library, for people; an error if the library cannot be loaded.
[[nodiscard]] Result<std::string> client_library_in_use();
// Implements store::gather_facts() for servers.
[[nodiscard]] ServerFacts gather_facts(const MariadbSettings& settings,
                                       const std::optional<lease::OwnerId>& caller);

}  // namespace dblock::store::mariadb
