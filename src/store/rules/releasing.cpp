// Releasing: of one key in one statement, and of several under one token in one.
#include <algorithm>
#include <iterator>
#include <utility>

#include "lease/owner_id.hpp"
#include "store/parameters.hpp"
#include "store/rules/nesting.hpp"
#include "store/rules/own_row.hpp"
#include "store/rules/sharing.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

using Call = Database::Call;
using lease::Key;
using lease::LockStatus;
using lease::NotOurs;
using lease::NotOursWhy;

// Rounds of "the release was refused, but by the row it would not be": in each one a nested run, which held
// the lease as well, has ended in between.
constexpr int k_release_rounds = 3;

// The statement that releases all keys of one lease: by rows where all are known, else by keys.
Verb release_of(const std::vector<lease::LeaseRef>& parts) {
  const bool known =
      std::ranges::all_of(parts, [](const auto& part) { return lease::slot_of(part).has_value(); });
  return known ? Verb::release_rows : Verb::release_keys;
}

// keys, and rows of key and slot, for either statement
Parameters parts_parameters(const std::vector<lease::LeaseRef>& parts) {
  std::vector<std::vector<Scalar>> rows;
  for (const auto& part : parts)
    rows.push_back({part.key.bytes(), std::int64_t{lease::slot_of(part).value_or(0)}});
  return rows_parameters(rows);
}

// True when a row shows the release: free, under the same token, with `end` as the end of its run. On a
// shared lock, or one with slots, only the holders' rows are looked at: the lock's own row carries the same
// token.
bool is_released(const LockRows& seen, const lease::LeaseRef& ref, lease::RunEnd end) {
  const auto ended_so = [&](const lease::LockStatus& row) {
    return row.owner.empty() && (!ref.token || row.token == *ref.token) && row.last &&
           row.last->outcome == end.outcome && row.last->exit_code == end.exit_code;
  };
  if (ref.mode.value_or(seen.own_row.sharing.mode) == lease::Mode::exclusive) return ended_so(seen.own_row);
  return std::ranges::any_of(seen.holders, ended_so);
}

// The keys whose lock has a row and meets the condition. `keys` and `locks` are in the same order.
template <typename Condition>
std::vector<lease::Key> keys_where(const std::vector<lease::Key>& keys,
                                   const std::vector<std::optional<LockRows>>& locks, Condition is_so) {
  std::vector<lease::Key> found;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (locks[i] && is_so(*locks[i])) found.push_back(keys[i]);
  return found;
}

// Releases all keys of `ref`. RETURNS: the keys that were not released; nullopt: none was, because a nested
// run held one of them as well.
Result<std::optional<std::vector<lease::Key>>> release_all(LockTable& table, const lease::LeaseRef& ref,
                                                           lease::Actor actor, lease::RunEnd end) {
  const auto keys = keys_of(ref.key, ref.further_keys);
  std::vector<lease::LeaseRef> parts;
  for (const auto& key : keys) parts.push_back(lease::part_of(ref, key));
  const auto parameters = ref_parameters(ref, actor) + end_parameters(end) + parts_parameters(parts);
  const Verb verb = release_of(parts);
  auto done = table.run(verb, parameters);
  if (!done && table.database->refused_null(done.error())) return std::nullopt;
  if (!done) return std::unexpected(std::move(done.error()));
  std::vector<lease::Key> missing;
  if (done->changed < keys.size()) {
    DBLOCK_TRY(const auto seen, read_rows(table, keys, false));
    const auto released =
        keys_where(keys, seen, [&](const LockRows& lock) { return is_released(lock, ref, end); });
    std::ranges::set_difference(keys, released, std::back_inserter(missing), {}, &lease::Key::bytes,
                                &lease::Key::bytes);
    if (missing.empty()) missing.push_back(ref.key);
  }
  for (const auto& part : parts)
    if (std::ranges::find(missing, part.key) == missing.end()) table.ended.add(part, end, *done);
  return missing;
}

// For a release of several keys that was refused because a nested run held one of them. No other reason
// counts, since the keys that are still ours must be released all the same.
Result<std::optional<NotOurs>> still_nested(LockTable& table, const lease::LeaseRef& ref) {
  DBLOCK_TRY(const auto locks, read_rows(table, keys_of(ref.key, ref.further_keys), false));
  for (const auto& seen : locks) {
    const LockStatus* const nested = seen ? nested_row(*seen, ref.owner.text) : nullptr;
    if (nested != nullptr) return NotOurs{NotOursWhy::nested, *nested};
  }
  return std::nullopt;
}

// One round of release(); nullopt when another round is due.
Result<std::optional<lease::ReleaseOutcome>> try_release(LockTable& table, const lease::LeaseRef& ref,
                                                         lease::Actor actor, lease::RunEnd end) {
  if (!ref.further_keys.empty()) {
    DBLOCK_TRY(const auto missing, release_all(table, ref, actor, end));
    if (!missing) return still_nested(table, ref);
    if (missing->empty()) return lease::Released{};
    return reason_why_not(table, lease::part_of(ref, missing->front()), actor, false);
  }
  DBLOCK_TRY(bool released, release_row(table, likeliest(ref), actor, end));
  if (!released) {
    DBLOCK_TRY(const auto found, found_elsewhere(table, ref));
    if (found) {
      DBLOCK_TRY(released, release_row(table, *found, actor, end));
    }
  }
  if (released) return lease::Released{};
  return reason_why_not(table, ref, actor, false);
}

}  // namespace

Result<lease::ReleaseOutcome> TableLeaseStore::release(const lease::LeaseRef& ref, lease::Actor actor,
                                                       lease::RunEnd end) {
  const Call call(*table_.database, {"release", ref.key});
  DBLOCK_CHECK(call.open());
  if (lease::is_nested(ref.owner)) {
    if (actor != lease::Actor::script) return release_nested(table_, ref);
    return nested_for_script(table_, ref.owner, outer_part(ref, ref.key));
  }
  for (int round = 0; round < k_release_rounds; ++round) {
    DBLOCK_TRY(auto outcome, try_release(table_, ref, actor, end));
    if (outcome) return std::move(*outcome);
  }
  return contradiction(*table_.database);
}

}  // namespace dblock::store
