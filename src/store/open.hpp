// From settings to a store. The only place that knows which adapters exist.
#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "lease/store.hpp"
#include "store/config/settings.hpp"
#include "store/facts.hpp"
#include "store/schema.hpp"
#include "store/session_options.hpp"

namespace dblock::store {

class Database;

// No connection is made yet; the clock must outlive the store.
[[nodiscard]] std::unique_ptr<Database> open_database(const Settings& settings, const SessionOptions& options,
                                                      Clock& clock);
// The rules of leases above that database.
[[nodiscard]] std::unique_ptr<lease::LockBook> open_store(const Settings& settings,
                                                          const SessionOptions& options, Clock& clock);
[[nodiscard]] std::unique_ptr<SchemaAdmin> open_schema(const Settings& settings,
                                                       const SessionOptions& options);

// Asks each host of the settings, or looks into the file, and changes nothing there. With `caller`, an owner
// id, also takes and releases a lock by the procedures, where they are there and the account may call all of
// them. Blocks within the connect timeout and a few seconds for each host.
[[nodiscard]] Facts gather_facts(const Settings& settings, const std::optional<lease::OwnerId>& caller = {});

// "3.4.9 with OpenSSL 3.5.7 9 Jun 2026": MariaDB's client library and the TLS library that are in use on this
// host. An error where it cannot be loaded, which only databases on a server need.
[[nodiscard]] Result<std::string> client_library_in_use();

}  // namespace dblock::store
