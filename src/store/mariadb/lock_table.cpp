#include "store/mariadb/lock_table.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <utility>

#include "store/mariadb/factory.hpp"
#include "store/mariadb/hold_statements.hpp"
#include "store/mariadb/line_statements.hpp"
#include "store/mariadb/reaper.hpp"
#include "store/mariadb/statements.hpp"
#include "store/sharing.hpp"
#include "store/table_lease_store.hpp"

namespace dblock::store::mariadb {
namespace {

Result<std::vector<lease::LockStatus>> read_rows(Connection& connection, const std::string& sql,
                                                 const std::string& attempt, Most most = Most::few) {
  DBLOCK_TRY(const auto rows, connection.read(sql, attempt, most));
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
  DBLOCK_TRY(const auto rows, connection.read(peek_statement(key), attempt));
  gate.reset();
  if (rows.empty()) return std::nullopt;
  if (rows.front()[0]) gate = read_status(rows.front());
  return rows.front()[k_status_columns];
}

Result<std::optional<Scene>> survey_to_change(Connection& connection, const lease::Key& key,
                                              const std::string& attempt) {
  DBLOCK_TRY(auto gate, read_rows(connection, survey_statement(key, Rows::locks, true), attempt));
  if (gate.empty()) return std::nullopt;
  DBLOCK_TRY(const auto rows, connection.read(survey_statement(key, Rows::holds, true), attempt));
  Scene scene{std::move(gate.front()), {}};
  for (const auto& row : rows) {
    auto& hold = scene.holds.emplace_back(read_status(row));
    hold.fenced = unsigned_number(row[k_status_columns]) != 0 && !in_the_way(hold);
  }
  return scene;
}

Result<std::optional<Scene>> survey_to_look(Connection& connection, const lease::Key& key,
                                            const std::string& attempt) {
  std::optional<lease::LockStatus> gate;
  std::vector<lease::LockStatus> holds;
  const auto read = [&]() -> Result<std::optional<std::string>> {
    DBLOCK_TRY(auto replica, read_gate(connection, key, gate, attempt));
    if (!gate) return replica;
    DBLOCK_TRY(holds, read_rows(connection, survey_statement(key, Rows::holds, false), attempt));
    return replica;
  };
  DBLOCK_CHECK(read_where_written(connection, attempt, read));
  if (!gate) return std::nullopt;
  return Scene{std::move(*gate), std::move(holds)};
}

// A server that does not keep to its locks must not be believed, nor must a proxy that has it do things
// twice. The transaction undoes what was done.
std::unexpected<Error> changed_while_locked(const std::string& attempt) {
  return fail(Errc::unreachable, attempt + ": its rows changed while they were locked; try again");
}

// Only a run that holds one lock alone owns the lock's turnstile. Behind any other holder the first waiter
// owns it, and polls unseen.
bool all_in_line_seen(const lease::LockStatus& lock) {
  return lock.state == lease::State::held && lock.kind == lease::Kind::run &&
         lock.sharing == lease::Sharing{};
}

bool in_order(const lease::LockStatus& one, const lease::LockStatus& other) {
  return std::tie(one.key, one.slot) < std::tie(other.key, other.slot);
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
  const auto statement = [&](Mark mark) { return grant_statement(request, mark); };
  const auto give_back = [&] {
    const lease::RunEnd not_run{lease::Outcome::not_run, std::nullopt};
    return free_row(Rows::locks, ref_to(request), lease::Actor::holder, not_run, attempt);
  };
  DBLOCK_TRY(const auto token, change_and_hear(statement, attempt, give_back));
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

Result<std::optional<Scene>> MariadbLockTable::survey(const lease::Key& key, bool to_change,
                                                      const std::string& attempt) {
  if (to_change) return survey_to_change(connection_, key, attempt);
  if (!connection_.awaits_reply()) return survey_to_look(connection_, key, attempt);
  looks_.follow(connection_);
  DBLOCK_CHECK(looks_.ensure_open(attempt));
  auto seen = survey_to_look(looks_, key, attempt);
  looks_.close();
  return seen;
}

Result<void> MariadbLockTable::add(const lease::Key& key, const std::string& attempt) {
  DBLOCK_TRY(const bool added, insert_one(add_statement(key), attempt));
  return added ? mend(key, attempt) : Result<void>{};
}

Result<void> MariadbLockTable::mend(const lease::Key& key, const std::string& attempt) {
  DBLOCK_CHECK(insert_one(add_fence_statement(key, 0, {}), attempt));
  return {};
}

Result<bool> MariadbLockTable::kept_by_fence(const lease::Key& key, const Error& why,
                                             const std::string& attempt) {
  if (!is_lock_wait(why.native)) return false;
  DBLOCK_CHECK(connection_.ensure_open(attempt));
  const auto is_locked = [&](const std::string& by_statement) {
    const auto free = connection_.read(by_statement, attempt);
    return !free && is_lock_wait(free.error().native);
  };
  // A job's transaction keeps the fence alone; a commit that waits for a replica keeps the lock's row, and
  // perhaps the fence.
  DBLOCK_TRY(const bool waits_for_replica, commits_wait_for_replicas(connection_, attempt));
  if (!waits_for_replica || !is_locked(try_row_statement(key))) return is_locked(try_fence_statement(key));
  return fail(Errc::unreachable,
              attempt + " on " + connection_.settings().display() +
                  ": its row is kept by a commit that waits for a replica to acknowledge it "
                  "(semi-synchronous replication); do the replicas run?",
              why.native);
}

Result<void> MariadbLockTable::put(const lease::AcquireRequest& request, const lease::Key& key,
                                   std::uint32_t slot, lease::Token token, const Scene& seen,
                                   const std::string& attempt) {
  ended_.expect(request);
  const auto gate = [&](Mark mark) {
    return put_statement(request, key, slot, token, seen.gate.sharing, mark);
  };
  DBLOCK_TRY(bool done, put_row(gate, attempt));
  if (!done) {
    DBLOCK_CHECK(mend(key, attempt));
    DBLOCK_TRY(done, put_row(gate, attempt));
  }
  if (done && slot > 0) {
    auto held = put_hold(request, key, slot, token, seen, attempt);
    if (!held && held.error().native != k_duplicate_key) return std::unexpected(std::move(held.error()));
    done = held.value_or(false);
  }
  if (!done) return changed_while_locked(attempt);
  turnstile_.settle();
  return {};
}

Result<bool> MariadbLockTable::put_hold(const lease::AcquireRequest& request, const lease::Key& key,
                                        std::uint32_t slot, lease::Token token, const Scene& seen,
                                        const std::string& attempt) {
  const auto over = [&](Mark mark) { return put_hold_statement(request, key, slot, token, mark); };
  if (std::ranges::find(seen.holds, slot, &lease::LockStatus::slot) != seen.holds.end()) {
    DBLOCK_TRY(const bool done, put_row(over, attempt));
    if (done) return true;
    DBLOCK_CHECK(insert_one(add_fence_statement(key, slot, token), attempt));
    return put_row(over, attempt);
  }
  DBLOCK_TRY(const bool fenced, insert_one(add_fence_statement(key, slot, token), attempt));
  if (!fenced) DBLOCK_CHECK(change(put_fence_statement(key, slot, token), attempt));
  const auto anew = [&](Mark mark) { return create_hold_statement(request, key, slot, token, mark); };
  return put_row(anew, attempt);
}

// A row of a grant, whose token must be told as it will have to be by each renewal. Otherwise the transaction
// undoes it all.
Result<bool> MariadbLockTable::put_row(const MarkedStatement& statement, const std::string& attempt) {
  const auto leave_to_transaction = [] { return true; };
  DBLOCK_TRY(const auto told, change_and_hear(statement, attempt, leave_to_transaction));
  return told.has_value();
}

Result<bool> MariadbLockTable::abandon(const lease::LockStatus& lease, Rows rows,
                                       const std::string& attempt) {
  return abandon_with(connection_, ended_, lease, rows, attempt);
}

Result<void> MariadbLockTable::keep_readers_away(const lease::Key& key, lease::ServerTime until,
                                                 const std::string& attempt) {
  DBLOCK_CHECK(change(keep_readers_away_statement(key, until), attempt));
  return {};
}

Result<void> MariadbLockTable::let_readers_in(const lease::Key& key, lease::ServerTime until,
                                              const std::string& attempt) {
  DBLOCK_CHECK(change(let_readers_in_statement(key, until), attempt));
  return {};
}

Result<std::optional<Renewal>> MariadbLockTable::renew(const lease::LeaseRef& ref, Rows rows,
                                                       lease::Actor actor, std::optional<Micros> ttl,
                                                       const std::string& attempt) {
  turnstile_.settle();  // a grant that was found by reading has not done it
  const auto statement = [&](Mark mark) { return renew_statement(ref, rows, actor, ttl, mark); };
  const auto keep = [] { return true; };  // a renewal too many takes nothing from anybody
  DBLOCK_TRY(const auto stored, change_and_hear(statement, attempt, keep));
  if (!stored) return std::nullopt;
  return Renewal{Micros{static_cast<Micros::rep>(*stored)}};
}

Result<bool> MariadbLockTable::release(const lease::LeaseRef& ref, Rows rows, lease::Actor actor,
                                       lease::RunEnd end, const std::string& attempt) {
  if (rows == Rows::holds) return release_hold(ref, actor, end, attempt);
  return free_row(rows, ref, actor, end, attempt);
}

Result<bool> MariadbLockTable::free_row(Rows rows, const lease::LeaseRef& ref, lease::Actor actor,
                                        lease::RunEnd end, const std::string& attempt) {
  DBLOCK_TRY(const auto changed, change(release_statement(ref, rows, actor, end), attempt));
  ended_.add(rows, ref, end, changed);
  return changed.rows == 1;
}

Result<bool> MariadbLockTable::release_hold(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                            const std::string& attempt) {
  DBLOCK_TRY(const auto own, connection_.read(own_hold_statement(ref, actor), attempt));
  if (own.empty()) return false;
  DBLOCK_TRY(const bool freed, free_row(Rows::holds, ref, actor, end, attempt));
  if (!freed) return changed_while_locked(attempt);
  const Row& row = own.front();
  const EndOfHold ended{micros(row[0]), row[1].value_or(""), end};
  return change_one(record_end_statement(ref.key, ended), attempt);
}

Result<std::optional<lease::Token>> MariadbLockTable::nest(const lease::LeaseRef& ref,
                                                           const lease::Sharing& sharing, Micros ttl,
                                                           const std::string& attempt) {
  const auto statement = [&](Mark mark) { return nest_statement(ref, sharing, ttl, mark); };
  const Rows rows = sharing.mode == lease::Mode::exclusive ? Rows::locks : Rows::holds;
  DBLOCK_TRY(const auto token,
             change_and_hear(statement, attempt, [&] { return unnest(ref, rows, attempt); }));
  if (!token) return std::nullopt;
  return lease::Token{*token};
}

Result<bool> MariadbLockTable::unnest(const lease::LeaseRef& ref, Rows rows, const std::string& attempt) {
  return change_one(unnest_statement(ref, rows), attempt);
}

Result<bool> MariadbLockTable::revoke(const lease::Key& key, lease::Token token, Rows rows,
                                      const std::string& attempt) {
  return change_one(revoke_statement(key, token, rows), attempt);
}

Result<bool> MariadbLockTable::free_now(const lease::Key& key, lease::Token token, Rows rows,
                                        const std::string& attempt) {
  DBLOCK_TRY(const auto changed, change(free_now_statement(key, token, rows), attempt));
  ended_.add_forced(rows, key, changed);
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
    const MarkedStatement& statement, const std::string& attempt, const std::function<Result<bool>()>& undo) {
  const Mark mark = connection_.next_mark();
  DBLOCK_TRY(const auto changed, change(statement(mark), attempt));
  if (changed.rows == 0) return std::nullopt;
  DBLOCK_TRY(const auto told, connection_.told(changed, mark, attempt));
  if (told) return told;
  [[maybe_unused]] const auto undone = undo();
  return fail(Errc::schema,
              attempt + ": the server does not tell the token; drop the triggers on dblock's tables");
}

// False: somebody else's is there.
Result<bool> MariadbLockTable::insert_one(const std::string& sql, const std::string& attempt) {
  auto inserted = change(sql, attempt);
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
  auto& locks = listing.locks;
  DBLOCK_TRY(locks, read_rows(connection_, list_statement(selection, Rows::locks), attempt, Most::list));
  DBLOCK_TRY(auto holds, read_rows(connection_, list_statement(selection, Rows::holds), attempt, Most::list));
  std::ranges::move(holds, std::back_inserter(locks));
  std::ranges::sort(locks, in_order);
  if (!locks.empty()) {
    listing.server_time = locks.front().server_time;
    add_waiters(listing);
    return listing;
  }
  DBLOCK_TRY(const auto time, connection_.read(server_time_statement(), attempt));
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
