#include "store/rules/table_lease_store.hpp"

#include <utility>

namespace dblock::store {
namespace {

using Call = Database::Call;

}  // namespace

TableLeaseStore::TableLeaseStore(std::unique_ptr<LockTable> table, Clock& clock)
    : table_(std::move(table)), clock_(clock) {}

Result<void> TableLeaseStore::connect() {
  const Call call(table_->database(), table_->database().connecting());
  return call.open();
}

Result<lease::ReapReport> TableLeaseStore::reap(const lease::ReapOptions& options) {
  return table_->reap(options);
}

void TableLeaseStore::record_ended() noexcept {
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
  const Call call(table_->database(), {});
  table_->database().expect_release();
}

void TableLeaseStore::rest() noexcept {
  // The lease runs meanwhile.
  const Call call(table_->database(), {}, Database::Patience::renewal);
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

}  // namespace dblock::store
