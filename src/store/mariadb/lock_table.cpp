#include "store/mariadb/lock_table.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "store/mariadb/factory.hpp"
#include "store/mariadb/line_statements.hpp"
#include "store/mariadb/reaper.hpp"
#include "store/mariadb/verbs.hpp"
#include "store/parameters.hpp"
#include "store/sharing.hpp"
#include "store/table_lease_store.hpp"
#include "store/together.hpp"

namespace dblock::store::mariadb {
namespace {

Result<std::vector<lease::LockStatus>> read_rows(Connection& connection, const std::string& sql,
                                                 const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection.read(sql, attempt, Most::list));
  std::vector<lease::LockStatus> read;
  read.reserve(rows.size());
  for (const auto& row : rows) read.push_back(read_status(row));
  return read;
}

// Reads something of a lock, and tells which server that takes no writes has answered, if one has.
using Read = std::function<Result<std::optional<std::string>>()>;

// What a proxy that splits reads from writes does not send to a replica.
Result<void> read_in_transaction(Connection& connection, const std::string& attempt, const Read& read) {
  auto done = connection.in_transaction(attempt, [&]() -> Result<void> {
    DBLOCK_TRY(const auto replica, read());
    if (!replica) return {};
    return fail(Errc::unreachable, attempt + " on " + connection.settings().display() +
                                       ": what was read comes from " + *replica +
                                       ", which takes no writes and may lag behind; have a proxy send all of "
                                       "dblock's statements to the primary");
  });
  // Nothing was written that a lost reply could leave in doubt.
  if (!done && done.error().code == Errc::indeterminate) done.error().code = Errc::unreachable;
  return done;
}

// A replica that lags says of a lock whatever was true once.
Result<void> read_where_written(Connection& connection, const std::string& attempt, const Read& read) {
  DBLOCK_TRY(const auto replica, read());
  if (!replica || connection.reads_only()) return {};
  return read_in_transaction(connection, attempt, read);
}

Result<std::optional<std::string>> read_gate(Connection& connection, const lease::Key& key,
                                             std::optional<lease::LockStatus>& gate,
                                             const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection.read(render(Verb::look, key_parameters(key)), attempt));
  gate.reset();
  if (rows.empty()) return std::nullopt;
  if (rows.front()[0]) gate = read_status(rows.front());
  return rows.front()[k_status_columns];
}

using Scenes = std::vector<std::optional<Scene>>;

// What survey.sql says of a row's fence.
enum class FenceState : std::uint64_t { open, kept, missing };

bool in_order(const lease::LockStatus& one, const lease::LockStatus& other) {
  return std::tie(one.key, one.slot) < std::tie(other.key, other.slot);
}

Result<Scenes> survey_to_change(Connection& connection, const std::vector<lease::Key>& keys,
                                std::vector<RowId>& unfenced, const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection.read(render(Verb::survey, keys_parameters(keys)), attempt));
  std::vector<lease::LockStatus> read;
  unfenced.clear();
  for (const auto& row : rows) {
    auto& status = read.emplace_back(read_status(row));
    const auto fence = static_cast<FenceState>(unsigned_number(row[k_status_columns]));
    status.fenced = fence == FenceState::kept && !in_the_way(status);
    if (fence == FenceState::missing) unfenced.emplace_back(status.key, status.slot);
  }
  return scenes_of(keys, std::move(read));
}

Result<Scenes> survey_to_look(Connection& connection, const std::vector<lease::Key>& keys,
                              const std::string& attempt) {
  std::vector<lease::LockStatus> seen;
  const auto read = [&]() -> Result<std::optional<std::string>> {
    DBLOCK_TRY(const auto rows, connection.read(render(Verb::look_all, keys_parameters(keys)), attempt));
    seen.clear();
    for (const auto& row : rows)
      if (row[0]) seen.push_back(read_status(row));
    return rows.empty() ? std::nullopt : rows.front()[k_status_columns];
  };
  DBLOCK_CHECK(read_where_written(connection, attempt, read));
  std::ranges::sort(seen, in_order);
  return scenes_of(keys, std::move(seen));
}

// A server that does not keep to its locks must not be believed, nor must a proxy that has it do things
// twice. The transaction undoes what was done.
std::unexpected<Error> changed_while_locked(const std::string& attempt) {
  return fail(Errc::unreachable, attempt + ": its rows changed while they were locked; try again");
}

std::unexpected<Error> token_not_told(const std::string& attempt) {
  return fail(Errc::schema,
              attempt + ": the server does not tell the token; drop the triggers on dblock's tables");
}

// Only a run that holds one lock alone owns the lock's turnstile. Behind any other holder the first waiter
// owns it, and polls unseen.
bool all_in_line_seen(const lease::LockStatus& lock) {
  return lock.state == lease::State::held && lock.kind == lease::Kind::run &&
         lock.sharing == lease::Sharing{};
}

// Nobody who held the lock as it was last granted may have it beside this request.
bool is_of_another_kind(const lease::Sharing& last, const lease::Sharing& asked) {
  return last.mode != asked.mode || (asked.mode == lease::Mode::slot && last.slots != asked.slots);
}

bool has_row(const Place& place) {
  return place.slot == 0 ||
         std::ranges::find(place.seen.holds, place.slot, &lease::LockStatus::slot) != place.seen.holds.end();
}

List rows_of(const std::vector<Place>& places) {
  List rows{2, {}};
  for (const auto& place : places) {
    rows.values.emplace_back(place.key.bytes());
    rows.values.emplace_back(std::int64_t{place.slot});
  }
  return rows;
}

// Of all keys that one lease holds: by its rows where they are known.
std::string release_of(const std::vector<lease::LeaseRef>& parts, lease::Actor actor, lease::RunEnd end) {
  List rows{2, {}};
  List keys;
  bool known = true;
  for (const auto& part : parts) {
    const auto slot = lease::slot_of(part);
    known = known && slot;
    keys.values.emplace_back(part.key.bytes());
    rows.values.emplace_back(part.key.bytes());
    rows.values.emplace_back(std::int64_t{slot.value_or(0)});
  }
  const auto parameters = ref_parameters(parts.front(), actor) + end_parameters(end) +
                          Parameters{{"keys", std::move(keys)}, {"rows", std::move(rows)}};
  return render(known ? Verb::release_rows : Verb::release_keys, parameters);
}

std::string listing_of(const lease::Selection& selection) {
  const bool all_keys = selection.keys.empty() && selection.prefix.value_or("").empty();
  const Verb among = selection.keys.empty() ? Verb::list_range : Verb::list_keys;
  return render(all_keys && selection.held_only ? Verb::list_held : among, selection_parameters(selection));
}

// As far as rows tell afterwards: a lock whose row is free under the same token ended as `end` says, or
// another way.
bool is_released(const std::optional<Scene>& seen, const lease::LeaseRef& ref, lease::RunEnd end) {
  const auto ended_so = [&](const lease::LockStatus& row) {
    return row.owner.empty() && (!ref.token || row.token == *ref.token) && row.last &&
           row.last->outcome == end.outcome;
  };
  return seen && (ended_so(seen->gate) || std::ranges::any_of(seen->holds, ended_so));
}

}  // namespace

MariadbLockTable::MariadbLockTable(const MariadbSettings& settings, const SessionOptions& options)
    : connection_(settings, options, SchemaCheck::on),
      looks_(settings, options, SchemaCheck::off, Connection::Session::bare),
      renewal_timeout_(options.renewal_timeout),
      turnstile_(connection_, options),
      replicas_(settings.min_replicas) {}

Result<void> MariadbLockTable::ensure_open(const std::string& attempt) {
  return connection_.ensure_open(attempt);
}

Result<void> MariadbLockTable::safe_to_grant(const std::string& attempt) {
  if (!replicas_.wanted()) return {};
  DBLOCK_CHECK(leave_the_line(attempt));
  return replicas_.before(connection_, attempt);
}

Result<void> MariadbLockTable::grant_is_safe(const std::string& attempt) {
  return replicas_.after(connection_, attempt);
}

Result<std::optional<lease::Token>> MariadbLockTable::grant(const lease::AcquireRequest& request,
                                                            const std::string& attempt) {
  ended_.expect(request);
  const auto parameters = grant_parameters(request, request.key);
  const auto give_back = [&] {
    const lease::RunEnd not_run{lease::Outcome::not_run, std::nullopt};
    return release(ref_to(request), lease::Actor::holder, not_run, attempt);
  };
  DBLOCK_TRY(const auto token, change_and_hear(Verb::grant, parameters, attempt, give_back));
  if (!token) return std::nullopt;
  turnstile_.settle();
  return lease::Token{*token};
}

// One statement could make a row that is held, but not its fence as well: so a free one comes first.
Result<std::optional<lease::Token>> MariadbLockTable::create(const lease::AcquireRequest& request,
                                                             const std::string& attempt) {
  DBLOCK_CHECK(add(request.key, attempt));
  return grant(request, attempt);
}

Result<void> MariadbLockTable::in_transaction(const std::string& attempt, const Body& body) {
  DBLOCK_CHECK(leave_the_line(attempt));
  const NamedLockTurnstile::Brief brief(turnstile_);
  const auto ended_before = ended_.mark();
  auto done = connection_.in_transaction(attempt, [&] {
    ended_.back_to(ended_before);  // of a try that the server undid
    return body();
  });
  if (!done) ended_.back_to(ended_before);
  return done;
}

Result<Scenes> MariadbLockTable::survey(const std::vector<lease::Key>& keys, bool to_change,
                                        const std::string& attempt) {
  if (to_change) return survey_to_change(connection_, keys, unfenced_, attempt);
  if (!connection_.awaits_reply()) return survey_to_look(connection_, keys, attempt);
  looks_.follow(connection_);
  DBLOCK_CHECK(looks_.ensure_open(attempt));
  auto seen = survey_to_look(looks_, keys, attempt);
  looks_.close();
  return seen;
}

Result<void> MariadbLockTable::add(const lease::Key& key, const std::string& attempt) {
  DBLOCK_TRY(const bool added, insert_one(Verb::add, key, 0, attempt));
  return added ? mend(key, attempt) : Result<void>{};
}

Result<void> MariadbLockTable::mend(const lease::Key& key, const std::string& attempt) {
  DBLOCK_CHECK(insert_one(Verb::add_fence, key, 0, attempt));
  return {};
}

Result<bool> MariadbLockTable::kept_by_fence(const lease::Key& key, const Error& why,
                                             const std::string& attempt) {
  if (!is_lock_wait(why.native)) return false;
  DBLOCK_CHECK(connection_.ensure_open(attempt));
  const auto is_locked = [&](Verb verb) {
    const auto free = connection_.read(render(verb, key_parameters(key)), attempt);
    return !free && is_lock_wait(free.error().native);
  };
  // A job's transaction keeps the fence alone; a commit that waits for a replica keeps the lock's row, and
  // perhaps the fence.
  DBLOCK_TRY(const bool waits_for_replica, commits_wait_for_replicas(connection_, attempt));
  if (!waits_for_replica || !is_locked(Verb::try_row)) return is_locked(Verb::try_fence);
  return fail(Errc::unreachable,
              attempt + " on " + connection_.settings().display() +
                  ": its row is kept by a commit that waits for a replica to acknowledge it "
                  "(semi-synchronous replication); do the replicas run?",
              why.native);
}

Result<void> MariadbLockTable::put(const lease::AcquireRequest& request, const std::vector<Place>& places,
                                   lease::Token token, const std::string& attempt) {
  ended_.expect(request);
  for (const Place& place : places) DBLOCK_CHECK(make_room(place, request.sharing, attempt));
  const Mark mark = connection_.next_mark();
  const bool alone = request.sharing.mode == lease::Mode::exclusive;
  const auto parameters = grant_parameters(request, request.key) +
                          Parameters{{"token", Scalar(token.value)}, {"rows", rows_of(places)}};
  DBLOCK_TRY(const auto changed,
             change(render(alone ? Verb::put : Verb::put_beside, parameters, mark), attempt));
  // Of each key the row and its fence, and the gate where that is another row.
  if (changed.rows != places.size() * (alone ? 2 : 3)) return changed_while_locked(attempt);
  // The token must be told as it will have to be by each renewal. Otherwise the transaction undoes it all.
  DBLOCK_TRY(const auto told, connection_.told(changed, mark, attempt));
  if (!told) return token_not_told(attempt);
  turnstile_.settle();
  return {};
}

// What the grant itself does not write: rows that are not there yet, and what ends with another kind of
// grant.
Result<void> MariadbLockTable::make_room(const Place& place, const lease::Sharing& asked,
                                         const std::string& attempt) {
  const bool there = has_row(place);
  if (!there) DBLOCK_CHECK(insert_one(Verb::add, place.key, place.slot, attempt));
  if (!there || std::ranges::find(unfenced_, RowId(place.key.bytes(), place.slot)) != unfenced_.end())
    DBLOCK_CHECK(insert_one(Verb::add_fence, place.key, place.slot, attempt));
  const auto& last = place.seen.gate.sharing;
  if (!is_of_another_kind(last, asked)) return {};
  DBLOCK_CHECK(change(render(Verb::pass_fences, row_parameters(place.key, place.slot)), attempt));
  if (place.slot == 0) DBLOCK_CHECK(change(render(Verb::inherit, past_parameters(place.seen.gate)), attempt));
  return {};
}

Result<bool> MariadbLockTable::abandon(const lease::LockStatus& lease, const std::string& attempt) {
  return abandon_with(connection_, ended_, lease, attempt);
}

Result<void> MariadbLockTable::keep_readers_away(const lease::Key& key, lease::ServerTime until,
                                                 const std::string& attempt) {
  DBLOCK_CHECK(change(render(Verb::keep_readers_away, intent_parameters(key, until)), attempt));
  return {};
}

Result<void> MariadbLockTable::let_readers_in(const lease::Key& key, lease::ServerTime until,
                                              const std::string& attempt) {
  DBLOCK_CHECK(change(render(Verb::let_readers_in, intent_parameters(key, until)), attempt));
  return {};
}

Result<std::optional<Renewal>> MariadbLockTable::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                       std::optional<Micros> ttl,
                                                       const std::string& attempt) {
  turnstile_.settle();  // a grant that was found by reading has not done it
  const auto parameters = ref_parameters(ref, actor) + Parameters{{"ttl", micros_or_null(ttl)}};
  const auto keep = [] { return true; };  // a renewal too many takes nothing from anybody
  DBLOCK_TRY(const auto stored, change_and_hear(Verb::renew, parameters, attempt, keep));
  if (!stored) return std::nullopt;
  return Renewal{Micros{static_cast<Micros::rep>(*stored)}};
}

Result<bool> MariadbLockTable::release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                       const std::string& attempt) {
  DBLOCK_TRY(const auto changed,
             change(render(Verb::release, ref_parameters(ref, actor) + end_parameters(end)), attempt));
  ended_.add(ref, end, changed);
  return changed.rows == 1;
}

Result<std::vector<lease::Key>> MariadbLockTable::release_all(const lease::LeaseRef& ref, lease::Actor actor,
                                                              lease::RunEnd end, const std::string& attempt) {
  const auto keys = keys_of(ref.key, ref.also);
  std::vector<lease::LeaseRef> parts;
  for (const auto& key : keys) parts.push_back(lease::part_of(ref, key));
  const auto changed = change(release_of(parts, actor, end), attempt);
  const bool nested = !changed && changed.error().native == k_null_refused;
  if (!changed && !nested) return std::unexpected(changed.error());
  std::vector<lease::Key> missing;
  if (nested || changed->rows < keys.size()) {
    DBLOCK_TRY(const auto seen, survey(keys, false, attempt));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const bool kept =
          nested ? seen[i] && is_nested_in(*seen[i], ref.owner.text) : !is_released(seen[i], ref, end);
      if (kept) missing.push_back(keys[i]);
    }
    if (missing.empty()) missing.push_back(ref.key);
  }
  for (const auto& part : parts)
    if (!nested && std::ranges::find(missing, part.key) == missing.end()) ended_.add(part, end, *changed);
  return missing;
}

Result<std::optional<lease::Token>> MariadbLockTable::nest(const lease::LeaseRef& ref,
                                                           const lease::Sharing& sharing, Micros ttl,
                                                           const std::string& attempt) {
  const auto parameters = ref_parameters(ref, lease::Actor::holder) + sharing_parameters(sharing) +
                          Parameters{{"ttl", micros_or_null(ttl)}};
  const auto count_down = [&] { return unnest(ref, attempt); };
  DBLOCK_TRY(const auto token, change_and_hear(Verb::nest, parameters, attempt, count_down));
  if (!token) return std::nullopt;
  return lease::Token{*token};
}

Result<bool> MariadbLockTable::unnest(const lease::LeaseRef& ref, const std::string& attempt) {
  return change_one(render(Verb::unnest, ref_parameters(ref, lease::Actor::holder)), attempt);
}

Result<bool> MariadbLockTable::revoke(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                      const std::string& attempt) {
  return change_one(render(Verb::revoke, force_parameters(key, slot, token)), attempt);
}

Result<bool> MariadbLockTable::free_now(const lease::Key& key, std::uint32_t slot, lease::Token token,
                                        const std::string& attempt) {
  DBLOCK_TRY(const auto changed, change(render(Verb::free_now, force_parameters(key, slot, token)), attempt));
  ended_.add_forced(key, changed);
  return changed.rows == 1;
}

// Whoever writes while standing in line has given up on the line.
Result<void> MariadbLockTable::leave_the_line(const std::string& attempt) {
  if (!connection_.awaits_reply()) return {};
  connection_.close();
  return connection_.ensure_open(attempt);
}

Result<Changed> MariadbLockTable::change(const std::string& sql, const std::string& attempt) {
  DBLOCK_CHECK(leave_the_line(attempt));
  return connection_.change(sql, attempt);
}

// What the statement tells; nothing where it changed no row. A job without a token must not run: where it is
// not told, what was done is undone. Where that fails too, a grant ends by itself.
Result<std::optional<std::uint64_t>> MariadbLockTable::change_and_hear(
    Verb verb, const Parameters& parameters, const std::string& attempt,
    const std::function<Result<bool>()>& undo) {
  const Mark mark = connection_.next_mark();
  DBLOCK_TRY(const auto changed, change(render(verb, parameters, mark), attempt));
  if (changed.rows == 0) return std::nullopt;
  DBLOCK_TRY(const auto told, connection_.told(changed, mark, attempt));
  if (told) return told;
  [[maybe_unused]] const auto undone = undo();
  return token_not_told(attempt);
}

// False: somebody else's is there.
Result<bool> MariadbLockTable::insert_one(Verb verb, const lease::Key& key, std::uint32_t slot,
                                          const std::string& attempt) {
  auto inserted = change(render(verb, row_parameters(key, slot)), attempt);
  if (inserted) return true;
  if (inserted.error().native == k_duplicate_key) return false;
  return std::unexpected(std::move(inserted.error()));
}

Result<bool> MariadbLockTable::change_one(const std::string& sql, const std::string& attempt) {
  DBLOCK_TRY(const auto changed, change(sql, attempt));
  return changed.rows == 1;
}

Result<std::optional<lease::LockStatus>> MariadbLockTable::look(const lease::Key& key,
                                                                const std::string& attempt) {
  return look(key, Detail::row, attempt);
}

Result<std::optional<lease::LockStatus>> MariadbLockTable::look_in_line(const lease::Key& key,
                                                                        const std::string& attempt) {
  return look(key, Detail::row_and_place, attempt);
}

Result<std::optional<lease::LockStatus>> MariadbLockTable::look(const lease::Key& key, Detail detail,
                                                                const std::string& attempt) {
  const bool in_line = connection_.awaits_reply();
  auto seen = in_line ? look_from_the_line(key, detail, attempt) : look_by(connection_, key, detail, attempt);
  // Too little room for a second connection is no reason to lose the place that the first one keeps.
  if (!seen && in_line && is_crowded_out(seen.error().native) && last_look_ && last_look_->key == key.bytes())
    return last_look_;
  if (seen) last_look_ = *seen;
  return seen;
}

// Not kept open: a hundred waiters would take two hundred of the server's connections.
Result<std::optional<lease::LockStatus>> MariadbLockTable::look_from_the_line(const lease::Key& key,
                                                                              Detail detail,
                                                                              const std::string& attempt) {
  looks_.follow(connection_);
  DBLOCK_CHECK(looks_.ensure_open(attempt));
  auto seen = look_by(looks_, key, detail, attempt);
  looks_.close();
  return seen;
}

Result<std::optional<lease::LockStatus>> MariadbLockTable::look_by(Connection& connection,
                                                                   const lease::Key& key, Detail detail,
                                                                   const std::string& attempt) {
  std::optional<lease::LockStatus> status;
  const auto read = [&] { return read_gate(connection, key, status, attempt); };
  DBLOCK_CHECK(read_where_written(connection, attempt, read));
  if (status && detail == Detail::row_and_place && all_in_line_seen(*status))
    status->place = place_seen_by(connection, key);
  return status;
}

Result<std::optional<lease::LockStatus>> MariadbLockTable::look_where_written(const lease::Key& key,
                                                                              const std::string& attempt) {
  std::optional<lease::LockStatus> status;
  const auto read = [&] { return read_gate(connection_, key, status, attempt); };
  DBLOCK_CHECK(read_in_transaction(connection_, attempt, read));
  return status;
}

// Before we have queued, it is the place that we will get.
std::optional<lease::PlaceInLine> MariadbLockTable::place_seen_by(Connection& connection,
                                                                  const lease::Key& key) const {
  const auto rows = connection.read(waiters_statement(connection.is_mariadb()), "cannot list waiters");
  if (!rows) return std::nullopt;
  lease::PlaceInLine ours{0, 0};
  for (const auto& row : *rows) {
    const auto seen = read_announcement(row[0].value_or(""));
    if (!seen || seen->key != key.bytes()) continue;
    ++ours.of;
    if (ours.place == 0 && turnstile_.announced(seen->waiter)) ours.place = ours.of;
  }
  if (ours.place == 0 && !connection_.awaits_reply()) ours.place = ++ours.of;
  return ours.place == 0 ? std::nullopt : std::optional(ours);
}

Result<lease::Listing> MariadbLockTable::list(const lease::Selection& selection, const std::string& attempt) {
  lease::Listing listing;
  DBLOCK_TRY(listing.locks, read_rows(connection_, listing_of(selection), attempt));
  if (!listing.locks.empty()) {
    listing.server_time = listing.locks.front().server_time;
    add_waiters(listing);
    return listing;
  }
  DBLOCK_TRY(const auto time, connection_.read(render(Verb::server_time), attempt));
  if (!time.empty()) listing.server_time = {micros(time.front()[0])};
  return listing;
}

// What the account may not see, or the server does not tell, stays unknown.
void MariadbLockTable::add_waiters(lease::Listing& listing) {
  const auto rows = connection_.read(waiters_statement(connection_.is_mariadb()), "cannot list waiters");
  if (!rows) return;
  for (auto& lock : listing.locks) {
    if (all_in_line_seen(lock)) lock.waiters.emplace();
  }
  for (const auto& row : *rows) {
    auto seen = read_announcement(row[0].value_or(""));
    if (!seen) continue;
    seen->waiter.since = {listing.server_time.since_epoch - micros(row[1])};
    const auto of_key = std::ranges::equal_range(listing.locks, seen->key, {}, &lease::LockStatus::key);
    for (auto& lock : of_key) {
      if (lock.waiters) lock.waiters->push_back(seen->waiter);
    }
  }
}

Result<lease::ReapReport> MariadbLockTable::reap(const lease::ReapRequest& request,
                                                 const std::string& attempt) {
  return reap_with(connection_, ended_, request, attempt);
}

Result<lease::History> MariadbLockTable::history(const lease::HistoryQuery& query,
                                                 const std::string& attempt) {
  return history_with(connection_, query, attempt);
}

std::unique_ptr<lease::LeaseStore> make_lease_store(const MariadbSettings& settings,
                                                    const SessionOptions& options, Clock& clock) {
  return std::make_unique<TableLeaseStore>(std::make_unique<MariadbLockTable>(settings, options), clock);
}

}  // namespace dblock::store::mariadb
