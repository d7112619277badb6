#include "lease/line.hpp"

#include <algorithm>
#include <tuple>

namespace dblock::lease {
namespace {

std::tuple<ServerTime, std::string_view> rank_of(const Place& place) {
  return {place.waiter.since, place.owner.text};
}

// Where the request stands; behind all others if it does not wait.
std::tuple<ServerTime, std::string_view> rank_of(const LeaseRequest& request) {
  return {request.arrival.value_or(ServerTime{Micros::max()}), request.owner.text};
}

bool conflict(const Sharing& one, const Sharing& other) {
  return one.mode != Mode::shared || other.mode != Mode::shared;
}

}  // namespace

std::string_view to_string(Line line) {
  switch (line) {
    case Line::one:
      return "one";
    case Line::newest:
      return "newest";
    default:
      return "fifo";
  }
}

void sort_line(std::vector<Place>& places) {
  std::ranges::sort(places,
                    [](const Place& one, const Place& other) { return rank_of(one) < rank_of(other); });
}

std::vector<const Place*> places_before(const std::vector<Place>& places, const LeaseRequest& request,
                                        const std::string& key) {
  std::vector<const Place*> before;
  for (const auto& place : places) {
    const bool leaves = place.line == Line::newest && request.arrival;
    if (place.key == key && place.owner != request.owner && !leaves && rank_of(place) < rank_of(request) &&
        conflict(place.sharing, request.sharing))
      before.push_back(&place);
  }
  return before;
}

std::size_t count_before(const std::vector<Place>& places, const LeaseRequest& request,
                         const std::string& key) {
  const auto count = std::ranges::count_if(places, [&](const Place& place) {
    return place.key == key && place.owner != request.owner && rank_of(place) < rank_of(request);
  });
  return static_cast<std::size_t>(count);
}

std::optional<OwnerId> leaves_for(const std::vector<Place>& places, const LeaseRequest& request) {
  std::optional<OwnerId> other;
  for (const auto& place : places) {
    if (place.owner == request.owner) continue;
    const bool came_before = rank_of(place) < rank_of(request);
    if (request.line == Line::one && came_before) return place.owner;
    if (request.line == Line::newest && !came_before) other = place.owner;
  }
  return other;
}

LinePosition position_of(const std::vector<Place>& places, const LeaseRequest& request) {
  const auto own = std::ranges::find(places, request.owner, &Place::owner);
  const std::string& key = own == places.end() ? request.key.bytes() : own->key;
  const auto count = static_cast<std::size_t>(std::ranges::count(places, key, &Place::key));
  const std::size_t number = 1 + count_before(places, request, key);
  return {number, std::max(count, number)};
}

bool long_free(const LockStatus& row) {
  return row.free_since().since_epoch + k_line_patience <= row.server_time.since_epoch;
}

}  // namespace dblock::lease
