// The line: rows of dblock_waiter.
#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "lease/line.hpp"
#include "store/parameters.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

using Call = Database::Call;

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

// All places of a request have one arrival. A lost reply leaves places behind whose arrival is read then.
Result<lease::ServerTime> take_places(LockTable& table, const lease::LeaseRequest& request, Micros length,
                                      bool marks) {
  lease::LeaseRequest standing = request;
  const auto keys = locks_of(request);
  std::uint64_t kept = 0;
  if (request.arrival) {
    DBLOCK_TRY(const auto done, table.run(Verb::keep_places, place_parameters(request, length)));
    kept = done.changed;
  }
  for (std::size_t i = 0; kept < keys.size() && i < keys.size(); ++i) {
    DBLOCK_TRY(const auto done,
               table.run(Verb::add_place, place_parameters(standing, length) + key_parameters(keys[i])));
    if (standing.arrival) continue;
    if (done.reported) standing.arrival = lease::ServerTime{Micros{static_cast<Micros::rep>(*done.reported)}};
    if (standing.arrival) continue;
    // The place may not count any more: its reply was lost long ago.
    DBLOCK_CHECK(table.run(Verb::keep_places, place_parameters(request, length)));
    DBLOCK_TRY(const auto places, read_line(table, request));
    const auto own = std::ranges::find(places, request.owner, &lease::Place::owner);
    if (own == places.end())
      return table.database->attempt().refuse(Errc::unreachable, "its place in the line vanished; try again");
    standing.arrival = own->waiter.since;
  }
  // A grant between the caller's look and a new place has not seen the place, and ended the mark that was
  // looked at.
  if (marks || kept < keys.size())
    DBLOCK_CHECK(table.run(Verb::mark_line, place_parameters(request, length)));
  return *standing.arrival;
}

}  // namespace

std::vector<lease::Place> read_places(std::span<const Row> rows) {
  std::vector<lease::Place> places;
  places.reserve(rows.size());
  for (const auto& row : rows) places.push_back(read_place(row));
  lease::sort_line(places);
  return places;
}

Result<std::vector<lease::Place>> read_line(LockTable& table, const lease::LeaseRequest& request) {
  DBLOCK_TRY(const auto found, table.run(Verb::see_line, keys_parameters(locks_of(request))));
  return read_places(found.rows);
}

Result<void> delete_places(LockTable& table, const lease::LeaseRequest& request, bool granted) {
  const auto parameters = place_parameters(request, Micros{0}) + key_parameters(request.key);
  DBLOCK_CHECK(table.run(granted && request.plain() ? Verb::pass_line : Verb::leave_line, parameters));
  return {};
}

// The waiters of a lock belong to each of its rows. REQUIRES: the locks are ordered by key, and there is one
// where only held ones are selected.
Result<void> add_waiters(LockTable& table, const lease::Selection& selection, lease::Listing& listing) {
  const bool by_keys = !selection.keys.empty();
  DBLOCK_TRY(const auto found, by_keys
                                   ? table.run(Verb::see_line, keys_parameters(selection.keys))
                                   : table.run(Verb::list_places, range_of_places(selection, listing.locks)));
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

Result<lease::ServerTime> TableLeaseStore::stand_in_line(const lease::LeaseRequest& request, Micros length,
                                                         bool marks) {
  const Call call(*table_.database, {"wait for", request.key});
  DBLOCK_CHECK(call.open());
  placed_ = request;
  auto arrival = take_places(table_, request, length, marks);
  // A place is no grant: where the reply is lost, it is taken again.
  if (!arrival && arrival.error().code == Errc::indeterminate) arrival.error().code = Errc::unreachable;
  if (arrival) placed_->arrival = *arrival;
  return arrival;
}

Result<std::vector<lease::Place>> TableLeaseStore::see_line(const lease::LeaseRequest& request) {
  const Call call(*table_.database, {"look at the line of", request.key});
  DBLOCK_CHECK(call.open());
  return read_line(table_, request);
}

void TableLeaseStore::leave_line(const lease::LeaseRequest& request) noexcept {
  give_up_places(request, false);
}

void TableLeaseStore::give_up_places(const lease::LeaseRequest& request, bool granted) noexcept {
  placed_.reset();
  // The lease runs meanwhile, if there is one.
  const Call call(*table_.database, {"leave the line of", request.key}, Database::Patience::renewal);
  auto done = call.open();
  if (done) done = delete_places(table_, request, granted);
  if (!done) log::info(done.error().message);
}

void TableLeaseStore::give_up_places() noexcept {
  if (!placed_) return;
  const lease::LeaseRequest placed = *placed_;
  for (const auto& member : members_of(placed))
    if (placed.of_pool() && member.key == granted_) give_up_places(member, true);
  give_up_places(placed, true);
}

}  // namespace dblock::store
