// From settings to a store. The only place that knows which adapters exist.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "lease/store.hpp"
#include "store/config/settings.hpp"
#include "store/schema.hpp"

namespace dblock::store {

class Database;

struct SessionOptions {
  std::chrono::seconds network_timeout{10};  // read and write timeout of every network call
  Micros idle_timeout{0};   // the server may drop this session when idle longer; zero: the server's default
  bool reads_only = false;  // nothing will be written: a read-only server will do
  // A holder's renewal that has no answer for this long is given up; zero: as every call.
  Micros renewal_timeout{0};
};

// No connection is made yet; the clock must outlive the store.
[[nodiscard]] std::unique_ptr<Database> open_database(const Settings& settings, const SessionOptions& options,
                                                      Clock& clock);
// The rules of leases above that database.
[[nodiscard]] std::unique_ptr<lease::LeaseStore> open_store(const Settings& settings,
                                                            const SessionOptions& options, Clock& clock);
[[nodiscard]] std::unique_ptr<SchemaAdmin> open_schema(const Settings& settings,
                                                       const SessionOptions& options);

// "3.4.9 with OpenSSL 3.5.7 9 Jun 2026": MariaDB's client library and the TLS library that are in use on this
// host. An error where it cannot be loaded, which only databases on a server need.
[[nodiscard]] Result<std::string> client_library_in_use();

}  // namespace dblock::store
