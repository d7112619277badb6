// From settings to a store. The only place that knows which adapters exist.
#pragma once

#include <chrono>
#include <memory>

#include "base/clock.hpp"
#include "lease/store.hpp"
#include "store/schema.hpp"
#include "store/settings.hpp"

namespace dblock::store {

struct SessionOptions {
  std::chrono::seconds network_timeout{10};  // read and write timeout of every network call
  Micros idle_timeout{0};   // the server may drop this session when idle longer; zero: the server's default
  bool reads_only = false;  // nothing will be written: a read-only server will do
};

// No connection is made yet; the clock must outlive the store.
[[nodiscard]] std::unique_ptr<lease::LeaseStore> open_store(const Settings& settings,
                                                            const SessionOptions& options, Clock& clock);
[[nodiscard]] std::unique_ptr<SchemaAdmin> open_schema(const Settings& settings,
                                                       const SessionOptions& options);

}  // namespace dblock::store
