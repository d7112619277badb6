// What `inspect`, with or without --watch, reports of a listing (private to the use cases).
#pragma once

#include "app/use_cases.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

// The locks to list for the request. May be more than are reported: a judgement needs free locks, too.
[[nodiscard]] lease::Selection selection_of(const InspectRequest& request);
// The judgements that the request asks for, and the locks that it wants to see.
[[nodiscard]] InspectReport report_on(lease::Listing listing, const InspectRequest& request,
                                      const store::Settings& settings);

}  // namespace dblock::app
