// Whether this configuration deserves trust. The stores gather facts (store/facts.hpp); this folder judges
// them.
#pragma once

#include <vector>

#include "doctor/finding.hpp"
#include "store/config/settings.hpp"

namespace dblock::doctor {

// Findings about the settings, the credentials, and each host or the file, in the order in which they are
// shown. Changes nothing. Never fails: a failure is a finding. Blocks within the connect timeout and a few
// seconds for each host.
[[nodiscard]] std::vector<Finding> examine(const store::SettingsSources& sources);

}  // namespace dblock::doctor
