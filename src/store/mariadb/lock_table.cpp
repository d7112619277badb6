#include "store/mariadb/lock_table.hpp"

#include <algorithm>
#include <utility>

#include "store/mariadb/factory.hpp"
#include "store/mariadb/line_statements.hpp"
#include "store/mariadb/reaper.hpp"
#include "store/mariadb/statements.hpp"
#include "store/table_lease_store.hpp"

namespace dblock::store::mariadb {

MariadbLockTable::MariadbLockTable(const MariadbSettings& settings, const SessionOptions& options)
    : connection_(settings, options, SchemaCheck::on),
      looks_(settings, options, SchemaCheck::off, Connection::Session::bare),
      turnstile_(connection_, options) {}

Result<void> MariadbLockTable::ensure_open(const std::string& attempt) {
  return connection_.ensure_open(attempt);
}

Result<std::optional<lease::Token>> MariadbLockTable::grant(const lease::AcquireRequest& request,
                                                            const std::string& attempt) {
  DBLOCK_TRY(const auto changed, change(grant_statement(request), attempt));
  if (changed.rows == 0) return std::nullopt;
  turnstile_.settle();
  return lease::Token{changed.insert_id};
}

Result<std::optional<lease::Token>> MariadbLockTable::create(const lease::AcquireRequest& request,
                                                             const std::string& attempt) {
  auto created = change(create_statement(request), attempt);
  if (created) {
    turnstile_.settle();
    return lease::Token{created->insert_id};
  }
  if (created.error().native == k_duplicate_key) return std::nullopt;
  return std::unexpected(std::move(created.error()));
}

Result<std::optional<Renewal>> MariadbLockTable::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                       std::optional<Micros> ttl,
                                                       const std::string& attempt) {
  turnstile_.settle();  // a grant that was found by reading has not done it
  DBLOCK_TRY(const auto changed, change(renew_statement(ref, actor, ttl), attempt));
  if (changed.rows == 0) return std::nullopt;
  return Renewal{ttl ? *ttl : Micros{static_cast<Micros::rep>(changed.insert_id)}};
}

Result<bool> MariadbLockTable::release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                       const std::string& attempt) {
  return change_one(release_statement(ref, actor, end), attempt);
}

Result<bool> MariadbLockTable::revoke(const lease::Key& key, lease::Token token, const std::string& attempt) {
  return change_one(revoke_statement(key, token), attempt);
}

Result<bool> MariadbLockTable::free_now(const lease::Key& key, lease::Token token,
                                        const std::string& attempt) {
  return change_one(free_now_statement(key, token), attempt);
}

// Whoever writes while standing in line has given up on the line.
Result<Changed> MariadbLockTable::change(const std::string& sql, const std::string& attempt) {
  if (connection_.awaits_reply()) {
    connection_.close();
    DBLOCK_CHECK(connection_.ensure_open(attempt));
  }
  return connection_.change(sql, attempt);
}

Result<bool> MariadbLockTable::change_one(const std::string& sql, const std::string& attempt) {
  DBLOCK_TRY(const auto changed, change(sql, attempt));
  return changed.rows == 1;
}

Result<std::optional<lease::LockStatus>> MariadbLockTable::look(const lease::Key& key,
                                                                const std::string& attempt) {
  const std::string sql = peek_statement(key);
  const bool in_line = connection_.awaits_reply();
  const auto rows = in_line ? look_from_the_line(sql, attempt) : connection_.read(sql, attempt);
  // Too little room for a second connection is no reason to lose the place that the first one keeps.
  if (!rows && in_line && is_crowded_out(rows.error().native) && last_look_ && last_look_->key == key.bytes())
    return last_look_;
  if (!rows) return std::unexpected(rows.error());
  last_look_.reset();
  if (!rows->empty()) last_look_ = read_status(rows->front());
  return last_look_;
}

// Not kept open: a hundred waiters would take two hundred of the server's connections.
Result<std::vector<Row>> MariadbLockTable::look_from_the_line(const std::string& sql,
                                                              const std::string& attempt) {
  DBLOCK_CHECK(looks_.ensure_open(attempt));
  auto rows = looks_.read(sql, attempt);
  looks_.close();
  return rows;
}

Result<lease::Listing> MariadbLockTable::list(const lease::Selection& selection, const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection_.read(list_statement(selection), attempt));
  lease::Listing listing;
  listing.locks.reserve(rows.size());
  for (const auto& row : rows) listing.locks.push_back(read_status(row));
  if (!rows.empty()) {
    listing.server_time = listing.locks.front().server_time;
    add_waiters(listing);
    return listing;
  }
  DBLOCK_TRY(const auto time, connection_.read(server_time_statement(), attempt));
  if (!time.empty()) listing.server_time = {Micros{number(time.front().front())}};
  return listing;
}

// What the account may not see, or the server does not tell, stays unknown.
void MariadbLockTable::add_waiters(lease::Listing& listing) {
  const auto rows = connection_.read(waiters_statement(connection_.is_mariadb()), "cannot list waiters");
  if (!rows) return;
  for (auto& lock : listing.locks) lock.waiters.emplace();
  for (const auto& row : *rows) {
    auto seen = read_announcement(row[0].value_or(""));
    if (!seen) continue;
    seen->waiter.since = {listing.server_time.since_epoch - Micros{number(row[1])}};
    const auto lock = std::ranges::find(listing.locks, seen->key, &lease::LockStatus::key);
    if (lock != listing.locks.end()) lock->waiters->push_back(std::move(seen->waiter));
  }
}

Result<lease::ReapReport> MariadbLockTable::reap(const lease::ReapRequest& request,
                                                 const std::string& attempt) {
  return reap_with(connection_, request, attempt);
}

std::unique_ptr<lease::LeaseStore> make_lease_store(const MariadbSettings& settings,
                                                    const SessionOptions& options, Clock& clock) {
  return std::make_unique<TableLeaseStore>(std::make_unique<MariadbLockTable>(settings, options), clock);
}

}  // namespace dblock::store::mariadb
