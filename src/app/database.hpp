// The database a request is about.
#pragma once

#include "base/error.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

// The settings that `sources` add up to; what is questionable about them is logged as a warning.
[[nodiscard]] Result<store::Settings> settings_from(const store::SettingsSources& sources);

}  // namespace dblock::app
