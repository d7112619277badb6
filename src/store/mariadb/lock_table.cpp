#include "store/mariadb/lock_table.hpp"

#include <utility>

#include "store/mariadb/factory.hpp"
#include "store/mariadb/reaper.hpp"
#include "store/mariadb/statements.hpp"
#include "store/table_lease_store.hpp"

namespace dblock::store::mariadb {

MariadbLockTable::MariadbLockTable(const MariadbSettings& settings, const SessionOptions& options)
    : connection_(settings, options, SchemaCheck::on) {}

Result<void> MariadbLockTable::ensure_open(const std::string& attempt) {
  return connection_.ensure_open(attempt);
}

Result<std::optional<lease::Token>> MariadbLockTable::grant(const lease::AcquireRequest& request,
                                                            const std::string& attempt) {
  DBLOCK_TRY(const auto changed, connection_.change(grant_statement(request), attempt));
  if (changed.rows == 0) return std::nullopt;
  return lease::Token{changed.insert_id};
}

Result<std::optional<lease::Token>> MariadbLockTable::create(const lease::AcquireRequest& request,
                                                             const std::string& attempt) {
  auto created = connection_.change(create_statement(request), attempt);
  if (created) return lease::Token{created->insert_id};
  if (created.error().native == k_duplicate_key) return std::nullopt;
  return std::unexpected(std::move(created.error()));
}

Result<std::optional<Renewal>> MariadbLockTable::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                       std::optional<Micros> ttl,
                                                       const std::string& attempt) {
  DBLOCK_TRY(const auto changed, connection_.change(renew_statement(ref, actor, ttl), attempt));
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

Result<bool> MariadbLockTable::change_one(const std::string& sql, const std::string& attempt) {
  DBLOCK_TRY(const auto changed, connection_.change(sql, attempt));
  return changed.rows == 1;
}

Result<std::optional<lease::LockStatus>> MariadbLockTable::look(const lease::Key& key,
                                                                const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection_.read(peek_statement(key), attempt));
  if (rows.empty()) return std::nullopt;
  return read_status(rows.front());
}

Result<lease::Listing> MariadbLockTable::list(const lease::Selection& selection, const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection_.read(list_statement(selection), attempt));
  lease::Listing listing;
  listing.locks.reserve(rows.size());
  for (const auto& row : rows) listing.locks.push_back(read_status(row));
  if (!rows.empty()) {
    listing.server_time = listing.locks.front().server_time;
    return listing;
  }
  DBLOCK_TRY(const auto time, connection_.read(server_time_statement(), attempt));
  if (!time.empty()) listing.server_time = {Micros{number(time.front().front())}};
  return listing;
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
