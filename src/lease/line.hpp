// The line of a lock: the requests that wait for it, in the order of their arrival. Pure functions of the
// places in it. The granting statement obeys the line by the same rules ({our_turn} in sql/verbs).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lease/store.hpp"

namespace dblock::lease {

// A lock that nobody has taken for this long goes to whoever asks, whatever the line says: those who stand
// before do not come.
inline constexpr Micros k_line_patience = std::chrono::seconds(3);

// Sorts by arrival, and by owner id where that is the same.
void sort_line(std::vector<Place>& places);

// The places of other requests in the line of `key` that must be served before `request`, in their order. A
// request that does not wait itself comes after all of them. REQUIRES: `places` are sorted.
[[nodiscard]] std::vector<const Place*> places_before(const std::vector<Place>& places,
                                                      const LeaseRequest& request, const std::string& key);

// How many other requests in the line of `key` came before `request`, those included that may have the lock
// together with it.
[[nodiscard]] std::size_t count_before(const std::vector<Place>& places, const LeaseRequest& request,
                                       const std::string& key);

// The waiting request for which `request`, which waits, leaves the line by its own policy (Line): with `one`
// the first that came before it, with `newest` the last that came after it.
[[nodiscard]] std::optional<OwnerId> leaves_for(const std::vector<Place>& places,
                                                const LeaseRequest& request);

// The place of `request` among the waiters of its first key in which it waits.
[[nodiscard]] LinePosition position_of(const std::vector<Place>& places, const LeaseRequest& request);

// True if the row has been free to grant for k_line_patience.
[[nodiscard]] bool long_free(const LockStatus& row);

}  // namespace dblock::lease
