// lease::LockBook on a table of locks: turns what the statements report into the answers of the contract,
// the same for every database. Each file of this folder that is named after what it does has the functions
// for that; those that concern no row are in table_lease_store.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "lease/store.hpp"
#include "store/rules/lock_table.hpp"

namespace dblock::store {

class TableLeaseStore final : public lease::LockBook {
 public:
  // The clock must outlive the store.
  TableLeaseStore(std::unique_ptr<Database> database, Clock& clock);

  Result<void> connect() override;
  Result<lease::Answer> try_acquire(const lease::LeaseRequest& request) override;
  Result<std::optional<lease::Lease>> nest(const lease::LeaseRequest& request) override;
  Result<lease::ServerTime> stand_in_line(const lease::LeaseRequest& request, Micros length,
                                          bool marks) override;
  Result<std::vector<lease::Place>> see_line(const lease::LeaseRequest& request) override;
  void leave_line(const lease::LeaseRequest& request) noexcept override;
  Result<lease::Answer> look(const lease::LeaseRequest& request) override;
  Result<lease::SeenInLine> look_in_line(const lease::LeaseRequest& request) override;
  Result<lease::RenewOutcome> renew(const lease::LeaseRef& ref, lease::Actor actor, std::optional<Micros> ttl,
                                    Micros cooldown, const std::optional<lease::JobNews>& news) override;
  Result<lease::ReleaseOutcome> release(const lease::LeaseRef& ref, lease::Actor actor,
                                        lease::RunEnd end) override;
  void hold(RenewedBy by) noexcept override;
  void rest() noexcept override;
  Result<lease::ForceOutcome> revoke(const lease::Key& key, lease::Token token, const std::string& by,
                                     std::optional<lease::ServerTime> arrival) override;
  Result<lease::ForceOutcome> free_now(const lease::Key& key, lease::Token token) override;
  Result<lease::Paused> pause(const lease::PauseRequest& request) override;
  Result<lease::Resumed> resume(const lease::PauseScope& scope) override;
  Result<lease::Listing> list(const lease::Selection& selection) override;
  Result<lease::ReapReport> reap(const lease::ReapOptions& options) override;
  Result<lease::History> history(const lease::HistoryQuery& query) override;
  void end() noexcept override;
  lease::WakeUp* wake_up() noexcept override;
  void disconnect() noexcept override;
  void interrupt() noexcept override;

 private:
  // Tries one member of a pool, or the whole of another request, as one call.
  [[nodiscard]] Result<lease::Answer> try_member(const lease::LeaseRequest& request);
  // Tries an exclusive lock of one key by statements on its own row alone. Tries again while the row that is
  // read after a refused grant contradicts the refusal.
  [[nodiscard]] Result<lease::Answer> try_own_row(const lease::LeaseRequest& request, BootTime sent_at);
  // Releases a new lease where fewer replicas have stored it than the settings ask for.
  [[nodiscard]] Result<void> keep_if_safe(const lease::Lease& lease);
  void give_up_places() noexcept;
  // `granted`: see delete_places().
  void give_up_places(const lease::LeaseRequest& request, bool granted) noexcept;

  LockTable table_;
  std::optional<lease::LeaseRequest> placed_;  // has places in line, or has passed others' places
  std::optional<lease::Key> granted_;          // the first key of the last grant: a pool's member
  // The last try may have been granted without a confirmed reply. The renewal that proves the grant then also
  // checks grant_is_safe().
  bool unproved_ = false;
  Clock& clock_;
};

}  // namespace dblock::store
