// Whether this configuration deserves trust. The stores gather facts (store/facts.hpp); this folder judges
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lease/lease.hpp"
#include "store/config/settings.hpp"

namespace dblock::doctor {

enum class Level { ok, warn, bad };

// One judgement. `found` and `message` may hold text from the server and are untrusted.
struct Finding {
  std::string check;  // "read-only"
  Level level = Level::ok;
  std::string found;    // what is there; empty: not known
  std::string message;  // why that is good or bad, and what to do
  std::string host;     // one of several hosts; empty: a single host, or no one host
};

// Findings about the settings, the credentials, and each host or the file, in the order in which they are
// shown. `resolved`: what store::resolve_settings() made of `sources`. Changes nothing; but with `tries` also
// calls the procedures as an application does. Never fails: a failure is a finding. Blocks within the connect
// timeout and a few seconds for each host.
[[nodiscard]] std::vector<Finding> examine(const store::SettingsSources& sources,
                                           const Result<store::ResolvedSettings>& resolved,
                                           const std::optional<lease::Holder>& tries);

}  // namespace dblock::doctor
