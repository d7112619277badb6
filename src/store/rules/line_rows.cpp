// The functions of LockTable for the line: rows of dblock_waiter.
#include <algorithm>
#include <map>
#include <span>
#include <string_view>
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

// Where the places of the listed locks are: of held locks between the first and the last; of a listing that
// was cut before its end.
Parameters range_of_places(const lease::Selection& selection, const std::vector<lease::LockStatus>& locks) {
  const bool cut = selection.at_most && locks.size() >= *selection.at_most;
  if (locks.empty() || !(selection.held_only || cut)) return prefix_parameters(selection.prefix);
  const std::string from = selection.held_only ? locks.front().key : selection.prefix.value_or("");
  return {{"from", Scalar(from)}, {"to", Scalar(locks.back().key + '\0')}};
}

using Lines = std::map<std::string, std::vector<lease::Waiter>>;

// Adds locks that have no row, as a reap may have forgotten it while somebody waited. Such a lock is free,
// but the row that its next grant adds counts as free from then on.
void add_rowless(Lines lines, lease::Listing& listing) {
  if (lines.empty()) return;
  auto& locks = listing.locks;
  for (auto& [key, waiters] : lines) {
    auto& lock = locks.emplace_back();
    lock.key = key;
    lock.refused_until = lock.server_time = listing.server_time;
    lock.waiters = std::move(waiters);
  }
  std::ranges::sort(
      locks, {}, [](const lease::LockStatus& row) { return std::pair(std::string_view(row.key), row.slot); });
}

}  // namespace

// All places of a request have one arrival. A lost reply leaves places behind whose arrival is read then.
Result<lease::ServerTime> LockTable::stand_in_line(const lease::LeaseRequest& request, Micros length,
                                                   bool marks) {
  lease::LeaseRequest standing = request;
  const auto keys = locks_of(request);
  std::uint64_t kept = 0;
  if (request.arrival) {
    DBLOCK_TRY(const auto done, run(Verb::keep_places, place_parameters(request, length)));
    kept = done.changed;
  }
  for (std::size_t i = 0; kept < keys.size() && i < keys.size(); ++i) {
    DBLOCK_TRY(const auto done,
               run(Verb::add_place, place_parameters(standing, length) + key_parameters(keys[i])));
    if (standing.arrival) continue;
    if (done.reported) standing.arrival = lease::ServerTime{Micros{static_cast<Micros::rep>(*done.reported)}};
    if (standing.arrival) continue;
    DBLOCK_TRY(const auto places, see_line(request));
    const auto own = std::ranges::find(places, request.owner, &lease::Place::owner);
    if (own == places.end())
      return database_->refuse(Errc::unreachable, "its place in the line vanished; try again");
    standing.arrival = own->waiter.since;
  }
  // A grant between the caller's look and a new place has not seen the place, and ended the mark that was
  // looked at.
  if (marks || kept < keys.size()) DBLOCK_CHECK(run(Verb::mark_line, place_parameters(request, length)));
  return *standing.arrival;
}

Result<std::vector<lease::Place>> LockTable::see_line(const lease::LeaseRequest& request) {
  DBLOCK_TRY(const auto found, run(Verb::see_line, keys_parameters(locks_of(request))));
  return read_places(found.rows);
}

Result<LockTable::InLine> LockTable::look_in_line(const lease::Key& key) {
  DBLOCK_TRY(auto seen, run(Verb::look_in_line, key_parameters(key)));
  const auto places =
      std::ranges::partition(seen.rows, [](const Row& row) { return row[row.size() - 1] == "0"; });
  return InLine{read_look(std::span(seen.rows.begin(), places.begin())), read_places(places)};
}

Result<void> LockTable::leave_line(const lease::LeaseRequest& request, bool granted) {
  const auto parameters = place_parameters(request, Micros{0}) + key_parameters(request.key);
  DBLOCK_CHECK(run(granted && request.plain() ? Verb::pass_line : Verb::leave_line, parameters));
  return {};
}

// The waiters of a lock belong to each of its rows. REQUIRES: the locks are ordered by key, and there is one
// where only held ones are selected.
Result<void> LockTable::add_waiters(const lease::Selection& selection, lease::Listing& listing) {
  const bool by_keys = !selection.keys.empty();
  DBLOCK_TRY(const auto found, by_keys ? run(Verb::see_line, keys_parameters(selection.keys))
                                       : run(Verb::list_places, range_of_places(selection, listing.locks)));
  for (auto& lock : listing.locks) lock.waiters.emplace();
  Lines rowless;
  for (const auto& place : read_places(found.rows)) {
    const auto rows = std::ranges::equal_range(listing.locks, place.key, {}, &lease::LockStatus::key);
    for (auto& lock : rows) lock.waiters->push_back(place.waiter);
    if (rows.empty() && !selection.held_only && place.key.starts_with(selection.prefix.value_or("")))
      rowless[place.key].push_back(place.waiter);
  }
  add_rowless(std::move(rowless), listing);
  if (selection.at_most && listing.locks.size() > *selection.at_most)
    listing.locks.resize(*selection.at_most);
  return {};
}

}  // namespace dblock::store
