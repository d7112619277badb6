// Does this configuration deserve trust? The stores tell facts (store/facts.hpp); what they mean is judged
// here.
#pragma once

#include <vector>

#include "doctor/finding.hpp"
#include "store/config/settings.hpp"

namespace dblock::doctor {

// Findings about the settings, the credentials, and each host or the file, in the order in which they are
// shown. Changes nothing. Never fails: what stands in the way is a finding. Blocks within the connect timeout
// and a few seconds for each host.
[[nodiscard]] std::vector<Finding> examine(const store::SettingsSources& sources);

}  // namespace dblock::doctor
