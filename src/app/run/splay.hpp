// run --splay: hosts that cron starts in the same second ask for their locks one after the other.
#pragma once

#include <string>

#include "app/requests.hpp"
#include "base/clock.hpp"
#include "process/supervisor.hpp"

namespace dblock::app {

// How long this host waits before it asks for this lock: from 0 to `longest`, evenly spread over hosts and
// keys. The same each time, so that the jobs of a night keep their order. `key`: all keys of the run.
[[nodiscard]] Micros splay_of(const std::string& host, const std::string& key, Micros longest);

// Waits for that time, without a session. Returns a Stop for what ends the wait early, as
// Supervisor::await(). `locks`: as lock_names() names them.
[[nodiscard]] process::Stop wait_for_splay(process::Supervisor& supervisor, Micros splay,
                                           const std::string& locks);

}  // namespace dblock::app
