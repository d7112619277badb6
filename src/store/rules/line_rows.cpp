// The functions of LockTable for the line: rows of dblock_waiter.
#include <algorithm>
#include <span>
#include <utility>

#include "lease/line.hpp"
#include "store/parameters.hpp"
#include "store/rules/lock_table.hpp"

namespace dblock::store {
namespace {

std::vector<lease::Place> read_places(std::span<const Row> rows) {
  std::vector<lease::Place> places;
  places.reserve(rows.size());
  for (const auto& row : rows) places.push_back(read_place(row));
  lease::sort_line(places);
  return places;
}

}  // namespace

// All places of a request have one arrival. A lost reply leaves places behind whose arrival is read then.
Result<lease::ServerTime> LockTable::stand_in_line(const lease::LeaseRequest& request, Micros length,
                                                   bool marks, const std::string& attempt) {
  lease::LeaseRequest standing = request;
  const auto keys = locks_of(request);
  std::uint64_t kept = 0;
  if (request.arrival) {
    DBLOCK_TRY(const auto done, run(Verb::keep_places, place_parameters(request, length), attempt));
    kept = done.changed;
  }
  for (std::size_t i = 0; kept < keys.size() && i < keys.size(); ++i) {
    DBLOCK_TRY(const auto done,
               run(Verb::add_place, place_parameters(standing, length) + key_parameters(keys[i]), attempt));
    if (standing.arrival) continue;
    if (done.reported) standing.arrival = lease::ServerTime{Micros{static_cast<Micros::rep>(*done.reported)}};
    if (standing.arrival) continue;
    DBLOCK_TRY(const auto places, see_line(request, attempt));
    const auto own = std::ranges::find(places, request.owner, &lease::Place::owner);
    if (own == places.end())
      return fail(Errc::unreachable, attempt + ": its place in the line vanished; try again");
    standing.arrival = own->waiter.since;
  }
  // A grant between the caller's look and a new place has not seen the place, and ended the mark that was
  // looked at.
  if (marks || kept < keys.size())
    DBLOCK_CHECK(run(Verb::mark_line, place_parameters(request, length), attempt));
  return *standing.arrival;
}

Result<std::vector<lease::Place>> LockTable::see_line(const lease::LeaseRequest& request,
                                                      const std::string& attempt) {
  DBLOCK_TRY(const auto found, run(Verb::see_line, keys_parameters(locks_of(request)), attempt));
  return read_places(found.rows);
}

Result<LockTable::InLine> LockTable::look_in_line(const lease::Key& key, const std::string& attempt) {
  DBLOCK_TRY(auto seen, run(Verb::look_in_line, key_parameters(key), attempt));
  const auto places =
      std::ranges::partition(seen.rows, [](const Row& row) { return row[row.size() - 1] == "0"; });
  return InLine{read_look(std::span(seen.rows.begin(), places.begin())), read_places(places)};
}

Result<void> LockTable::leave_line(const lease::LeaseRequest& request, bool granted,
                                   const std::string& attempt) {
  const auto parameters = place_parameters(request, Micros{0}) + key_parameters(request.key);
  DBLOCK_CHECK(run(granted && request.plain() ? Verb::pass_line : Verb::leave_line, parameters, attempt));
  return {};
}

// The waiters of a lock belong to each of its rows. REQUIRES: the locks are ordered by key.
Result<void> LockTable::add_waiters(lease::Listing& listing, const std::string& attempt) {
  const Parameters range{{"from", Scalar(listing.locks.front().key)},
                         {"to", Scalar(listing.locks.back().key + '\0')}};
  DBLOCK_TRY(const auto found, run(Verb::list_places, range, attempt));
  for (auto& lock : listing.locks) lock.waiters.emplace();
  for (const auto& place : read_places(found.rows)) {
    for (auto& lock : std::ranges::equal_range(listing.locks, place.key, {}, &lease::LockStatus::key))
      lock.waiters->push_back(place.waiter);
  }
  return {};
}

}  // namespace dblock::store
