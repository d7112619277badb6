// What inspect reports of a listing, once or again and again (private to the use cases).
#pragma once

#include "app/use_cases.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

// What of the store the request is about.
[[nodiscard]] lease::Selection selection_of(const InspectRequest& request);
[[nodiscard]] InspectReport report_on(lease::Listing listing, const InspectRequest& request,
                                      const store::Settings& settings);

}  // namespace dblock::app
