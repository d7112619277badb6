#include "store/rules/lock_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"
#include "store/parameters.hpp"
#include "store/rules/sharing.hpp"
#include "store/rules/together.hpp"

namespace dblock::store {
namespace {

std::optional<lease::Token> token_of(const std::optional<Effect>& done) {
  if (!done) return std::nullopt;
  return lease::Token{*done->reported};
}

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
// shared lock, or one with slots, only the holds are looked at: the lock's own row carries the same token.
bool is_released(const LockRows& seen, const lease::LeaseRef& ref, lease::RunEnd end) {
  const auto ended_so = [&](const lease::LockStatus& row) {
    return row.owner.empty() && (!ref.token || row.token == *ref.token) && row.last &&
           row.last->outcome == end.outcome && row.last->exit_code == end.exit_code;
  };
  if (ref.mode.value_or(seen.gate.sharing.mode) == lease::Mode::exclusive) return ended_so(seen.gate);
  return std::ranges::any_of(seen.holds, ended_so);
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

}  // namespace

Result<void> LockTable::in_transaction(const Database::Body& body) {
  const auto ended_before = ended_.mark();
  auto done = database_->in_transaction([&] {
    ended_.back_to(ended_before);  // forgets the runs of a try that the server rolled back
    return body();
  });
  if (!done) ended_.back_to(ended_before);
  return done;
}

Result<bool> LockTable::changes_one(Verb verb, const Parameters& parameters) {
  DBLOCK_TRY(const auto done, run(verb, parameters));
  return done.changed == 1;
}

// Runs a statement that must report a token; nullopt where it changed no row. Where the report is
// missing it calls `undo` and fails, since no job may run without a token. Where `undo` fails too, the grant
// expires by itself.
Result<std::optional<Effect>> LockTable::run_reporting(Verb verb, const Parameters& parameters,
                                                       const std::function<Result<bool>()>& undo) {
  DBLOCK_TRY(auto done, run(verb, parameters));
  if (done.changed == 0) return std::nullopt;
  if (done.reported) return std::optional(std::move(done));
  [[maybe_unused]] const auto undone = undo();
  return database_->refuse(Errc::schema,
                           "the server does not tell the token; drop the triggers on dblock's tables");
}

Result<std::optional<lease::Token>> LockTable::grant(const lease::LeaseRequest& request, LineIs line) {
  return grant_by(line == LineIs::none ? Verb::grant : Verb::grant_in_line, request);
}

Result<std::optional<lease::Token>> LockTable::first_grant(const lease::LeaseRequest& request) {
  return grant_by(Verb::first_grant, request);
}

Result<std::optional<lease::Token>> LockTable::grant_by(Verb verb, const lease::LeaseRequest& request) {
  ended_.expect(request);
  const auto undo = [&] {
    const lease::RunEnd not_run{lease::RunOutcome::not_run, std::nullopt};
    return release(ref_to(request), lease::Actor::holder, not_run);
  };
  DBLOCK_TRY(const auto done, run_reporting(verb, grant_parameters(request, request.key), undo));
  return token_of(done);
}

// One statement of a server cannot add both a held row and its fence. So this adds a free row and its fence,
// and then grants.
Result<std::optional<lease::Token>> LockTable::create(const lease::LeaseRequest& request) {
  std::optional<lease::Token> token;
  const auto add_and_grant = [&]() -> Result<void> {
    DBLOCK_CHECK(add(request.key));
    DBLOCK_TRY(token, first_grant(request));
    return {};
  };
  DBLOCK_CHECK(database_->bundled(add_and_grant));
  return token;
}

Result<void> LockTable::add(const lease::Key& key) {
  DBLOCK_TRY(const bool added, changes_one(Verb::add_row, row_parameters(key, 0)));
  return added ? add_missing_fence(key) : Result<void>{};
}

Result<void> LockTable::add_missing_fence(const lease::Key& key) {
  DBLOCK_CHECK(run(Verb::add_fence, row_parameters(key, 0)));
  return {};
}

Result<bool> LockTable::abandon(const lease::LockStatus& lease) {
  DBLOCK_TRY(const auto done, run(Verb::abandon, seen_parameters(lease)));
  ended_.add_abandoned(lease, done);
  return done.changed == 1;
}

Result<std::optional<Renewal>> LockTable::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                std::optional<Micros> ttl, Micros keep) {
  const auto parameters =
      ref_parameters(ref, actor) + Parameters{{"ttl", micros_or_null(ttl)}} + keep_parameters(keep);
  DBLOCK_TRY(const auto done, run(Verb::renew, parameters));
  if (done.changed == 0) return std::nullopt;
  Renewal renewal{};
  if (done.reported) renewal.ttl = Micros{static_cast<Micros::rep>(*done.reported)};
  if (!done.rows.empty()) renewal.expires_at = lease::ServerTime{store::micros(done.rows.front()[1])};
  return renewal;
}

Result<bool> LockTable::release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end) {
  DBLOCK_TRY(const auto done, run(Verb::release, ref_parameters(ref, actor) + end_parameters(end)));
  ended_.add(ref, end, done);
  return done.changed == 1;
}

Result<std::optional<std::vector<lease::Key>>> LockTable::release_all(const lease::LeaseRef& ref,
                                                                      lease::Actor actor, lease::RunEnd end) {
  const auto keys = keys_of(ref.key, ref.also);
  std::vector<lease::LeaseRef> parts;
  for (const auto& key : keys) parts.push_back(lease::part_of(ref, key));
  const auto parameters = ref_parameters(ref, actor) + end_parameters(end) + parts_parameters(parts);
  const Verb verb = release_of(parts);
  auto done = run(verb, parameters);
  if (!done && database_->refused_null(done.error())) return std::nullopt;
  if (!done) return std::unexpected(std::move(done.error()));
  std::vector<lease::Key> missing;
  if (done->changed < keys.size()) {
    DBLOCK_TRY(const auto seen, read_rows(keys, false));
    const auto released =
        keys_where(keys, seen, [&](const LockRows& lock) { return is_released(lock, ref, end); });
    std::ranges::set_difference(keys, released, std::back_inserter(missing), {}, &lease::Key::bytes,
                                &lease::Key::bytes);
    if (missing.empty()) missing.push_back(ref.key);
  }
  for (const auto& part : parts)
    if (std::ranges::find(missing, part.key) == missing.end()) ended_.add(part, end, *done);
  return missing;
}

Result<std::optional<lease::Token>> LockTable::nest(const lease::LeaseRef& ref, const lease::Sharing& sharing,
                                                    Micros ttl) {
  const auto parameters = ref_parameters(ref, lease::Actor::holder) + sharing_parameters(sharing) +
                          Parameters{{"ttl", micros_or_null(ttl)}};
  const auto count_down = [&] { return unnest(ref); };
  DBLOCK_TRY(const auto done, run_reporting(Verb::nest, parameters, count_down));
  return token_of(done);
}

Result<bool> LockTable::unnest(const lease::LeaseRef& ref) {
  return changes_one(Verb::unnest, ref_parameters(ref, lease::Actor::holder));
}

Result<bool> LockTable::revoke(const lease::Key& key, std::uint32_t slot, lease::Token token,
                               const std::string& by, std::optional<lease::ServerTime> arrival) {
  const Parameters parameters =
      force_parameters(key, slot, token) +
      Parameters{{"by", Scalar(Text{clean_utf8(by, k_by_bytes)})}, {"arrival", time_or_null(arrival)}};
  return changes_one(Verb::revoke, parameters);
}

Result<bool> LockTable::free_now(const lease::Key& key, std::uint32_t slot, lease::Token token) {
  DBLOCK_TRY(const auto done, run(Verb::free_now, force_parameters(key, slot, token)));
  ended_.add_forced(key, done);
  return done.changed == 1;
}

Result<std::optional<lease::LockStatus>> LockTable::look(const lease::Key& key) {
  DBLOCK_TRY(const auto seen, run(Verb::look, key_parameters(key)));
  return read_look(seen.rows);
}

Result<std::optional<lease::LockStatus>> LockTable::look_on_primary(const lease::Key& key) {
  DBLOCK_TRY(const auto seen, database_->run_on_primary(Verb::look, key_parameters(key)));
  return read_look(seen.rows);
}

Result<lease::Listing> LockTable::list(const lease::Selection& selection) {
  const bool all_keys = selection.keys.empty() && selection.prefix.value_or("").empty();
  const Verb among = selection.keys.empty() ? Verb::list_range : Verb::list_keys;
  const Verb verb = all_keys && selection.held_only ? Verb::list_held : among;
  lease::Listing listing;
  if (selection.with_pauses) {
    DBLOCK_TRY(listing.pauses, pauses());
  }
  DBLOCK_TRY(const auto found, run(verb, selection_parameters(selection)));
  listing.locks.reserve(found.rows.size());
  for (const auto& row : found.rows) listing.locks.push_back(read_status(row));
  if (listing.locks.empty()) {
    DBLOCK_TRY(listing.server_time, server_time());
    if (selection.held_only) return listing;
  } else {
    listing.server_time = listing.locks.front().server_time;
  }
  DBLOCK_CHECK(add_waiters(selection, listing));
  return listing;
}

Result<lease::ServerTime> LockTable::server_time() {
  DBLOCK_TRY(const auto time, run(Verb::server_time, {}));
  return lease::ServerTime{time.rows.empty() ? Micros{0} : micros(time.rows.front()[0])};
}

}  // namespace dblock::store
