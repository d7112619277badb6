#include "store/rules/table_lease_store.hpp"

#include <utility>

#include "base/text.hpp"

namespace dblock::store {

TableLeaseStore::TableLeaseStore(std::unique_ptr<LockTable> table, Clock& clock)
    : table_(std::move(table)), clock_(clock) {}

Result<void> TableLeaseStore::connect() {
  const LockTable::Call call(*table_);
  return table_->ensure_open(table_->database().connecting());
}

Result<lease::ReapReport> TableLeaseStore::reap(const lease::ReapOptions& options) {
  const LockTable::Call call(*table_);
  const std::string attempt = "cannot reap locks";
  DBLOCK_CHECK(table_->ensure_open(attempt));
  return table_->reap(options, attempt);
}

void TableLeaseStore::record_ended() noexcept {
  const LockTable::Call call(*table_);
  table_->record_ended();
}

void TableLeaseStore::settle() noexcept {
  if (!placed_) return;
  const lease::LeaseRequest placed = *placed_;
  for (const auto& member : members_of(placed))
    if (placed.of_pool() && member.key == granted_) give_up_places(member, true);
  give_up_places(placed, true);
}

void TableLeaseStore::expect_release() noexcept {
  const LockTable::Call call(*table_);
  table_->database().expect_release();
}

void TableLeaseStore::rest() noexcept {
  const LockTable::Call call(*table_, Database::Patience::renewal);  // the lease runs meanwhile
  table_->database().rest();
}

lease::WakeUp* TableLeaseStore::wake_up() noexcept {
  return table_->database().wake_up();
}

void TableLeaseStore::disconnect() noexcept {
  table_->database().close();
}

void TableLeaseStore::interrupt() noexcept {
  table_->database().interrupt();
}

std::string attempt_to(std::string_view verb, const lease::Key& key) {
  return "cannot " + std::string(verb) + " lock " + quote_untrusted(key.bytes());
}

}  // namespace dblock::store
