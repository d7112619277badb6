#include "store/rules/table_lease_store.hpp"

#include <utility>

namespace dblock::store {
namespace {

using Call = Database::Call;

}  // namespace

TableLeaseStore::TableLeaseStore(std::unique_ptr<Database> database, Clock& clock)
    : table_{std::move(database)}, clock_(clock) {}

Result<void> TableLeaseStore::connect() {
  const Call call(*table_.database, table_.database->connecting());
  return call.open();
}

void TableLeaseStore::hold(RenewedBy by) noexcept {
  give_up_places();
  if (by != RenewedBy::this_store) return;
  const Call call(*table_.database, {});
  table_.database->expect_release();
}

void TableLeaseStore::end() noexcept {
  wake_up()->leave();
  table_.ended.record(*table_.database);
}

void TableLeaseStore::rest() noexcept {
  // The lease runs meanwhile.
  const Call call(*table_.database, {}, Database::Patience::renewal);
  table_.database->rest();
}

lease::WakeUp* TableLeaseStore::wake_up() noexcept {
  return table_.database->wake_up();
}

void TableLeaseStore::disconnect() noexcept {
  table_.database->close();
}

void TableLeaseStore::interrupt() noexcept {
  table_.database->interrupt();
}

}  // namespace dblock::store
