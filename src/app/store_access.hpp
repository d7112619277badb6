// The database that a request names, and how the processes that keep a lease use it.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "lease/store.hpp"
#include "lease/timing.hpp"
#include "store/config/settings.hpp"
#include "store/open.hpp"

namespace dblock::app {

// Resolves `sources` to settings. Logs whatever is questionable about them as warnings, or puts the warnings
// into `unsaid` for the caller to log later.
[[nodiscard]] Result<store::Settings> settings_from(const store::SettingsSources& sources,
                                                    std::vector<std::string>* unsaid = nullptr);

// True for a failure of the database that may pass, so that a later try can succeed.
[[nodiscard]] bool may_pass(const Error& error);

// How a holder that renews its lease connects.
[[nodiscard]] store::SessionOptions session_options(const lease::Timing& timing);

}  // namespace dblock::app
