// lease::LeaseStore on a table of locks: turns what the statements report into the answers of the contract,
// the same for every database. Its functions are in granting.cpp, renewing_releasing.cpp, looking.cpp and
// pausing.cpp; those that only pass a call on are in table_lease_store.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "lease/store.hpp"
#include "store/rules/lock_table.hpp"
#include "store/rules/together.hpp"

namespace dblock::store {

class TableLeaseStore final : public lease::LeaseStore {
 public:
  // The clock must outlive the store.
  TableLeaseStore(std::unique_ptr<LockTable> table, Clock& clock);

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
                                    Micros keep) override;
  Result<lease::ReleaseOutcome> release(const lease::LeaseRef& ref, lease::Actor actor,
                                        lease::RunEnd end) override;
  void settle() noexcept override;
  void expect_release() noexcept override;
  void rest() noexcept override;
  Result<lease::ForceOutcome> revoke(const lease::Key& key, lease::Token token, const std::string& by,
                                     std::optional<lease::ServerTime> arrival) override;
  Result<lease::ForceOutcome> free_now(const lease::Key& key, lease::Token token) override;
  Result<lease::Paused> pause(const lease::PauseRequest& request) override;
  Result<lease::Resumed> resume(const lease::PauseScope& scope) override;
  Result<lease::Listing> list(const lease::Selection& selection) override;
  Result<lease::ReapReport> reap(const lease::ReapOptions& options) override;
  Result<lease::History> history(const lease::HistoryQuery& query) override;
  void record_ended() noexcept override;
  lease::WakeUp* wake_up() noexcept override;
  void disconnect() noexcept override;
  void interrupt() noexcept override;

 private:
  [[nodiscard]] Result<lease::Answer> try_one(const lease::LeaseRequest& request);
  [[nodiscard]] Result<lease::Answer> take(const lease::LeaseRequest& request);
  [[nodiscard]] Result<std::optional<lease::Lease>> nest_in(const lease::LeaseRequest& request);
  // Releases a new lease where fewer replicas have stored it than the settings ask for.
  [[nodiscard]] Result<void> keep_if_safe(const lease::Lease& lease);
  [[nodiscard]] Result<lease::Answer> try_alone(const lease::LeaseRequest& request, BootTime sent_at);
  // Turns a try that failed with `why` into Held, where it had waited for a transaction that called
  // dblock_assert_held(). Else returns `why`.
  [[nodiscard]] Result<lease::Answer> fenced_or(const lease::LeaseRequest& request, Error why);
  // One round of try_alone(); nullopt when the row changed during the round and another round is due.
  // `again`: not the first round, because the row that was read contradicted the refused grant.
  [[nodiscard]] Result<std::optional<lease::Answer>> try_once(const lease::LeaseRequest& request,
                                                              BootTime sent_at, bool again);
  [[nodiscard]] Result<lease::Answer> judge(const lease::LeaseRequest& request,
                                            std::optional<lease::LockStatus> seen);
  [[nodiscard]] Result<lease::Answer> with_pause(Result<lease::Answer> answer);
  [[nodiscard]] Result<lease::RenewOutcome> renew_one(const lease::LeaseRef& ref, lease::Actor actor,
                                                      std::optional<Micros> ttl, Micros keep);
  [[nodiscard]] Result<lease::RenewOutcome> renewed_as_read(const lease::LeaseRef& ref, lease::Actor actor,
                                                            BootTime sent_at);
  [[nodiscard]] Result<lease::NotOurs> nested_for_script(const lease::OwnerId& asked,
                                                         const lease::LeaseRef& outer);
  [[nodiscard]] Result<lease::ReleaseOutcome> unnest(const lease::LeaseRef& ref);
  [[nodiscard]] Result<std::optional<lease::LockStatus>> own_row(const lease::LeaseRef& ref);
  [[nodiscard]] Result<std::optional<lease::LeaseRef>> found_elsewhere(lease::LeaseRef ref);
  [[nodiscard]] Result<void> find_transaction(lease::Listing& listing);
  void find_rows(lease::Lease& lease);
  [[nodiscard]] Result<std::optional<lease::LockStatus>> row_where(
      const lease::Key& key, const std::function<bool(const lease::LockStatus&)>& wanted);
  [[nodiscard]] Result<std::optional<lease::ReleaseOutcome>> try_release(const lease::LeaseRef& ref,
                                                                         lease::Actor actor,
                                                                         lease::RunEnd end);
  [[nodiscard]] Result<std::optional<lease::NotOurs>> still_nested(const lease::LeaseRef& ref);
  // Why a renewal or release matched no row; nullopt when the row gives no reason.
  [[nodiscard]] Result<std::optional<lease::NotOurs>> reason(const lease::LeaseRef& ref, lease::Actor actor,
                                                             bool renewing);
  // The same; an error when the row gives no reason.
  [[nodiscard]] Result<lease::NotOurs> why_not(const lease::LeaseRef& ref, lease::Actor actor, bool renewing);
  enum class Force { revoke, free_now };
  [[nodiscard]] Result<lease::ForceOutcome> force(Force how, const lease::Key& key, lease::Token token,
                                                  const std::string& by,
                                                  std::optional<lease::ServerTime> arrival);
  // `granted`: see LockTable::leave_line().
  void give_up_places(const lease::LeaseRequest& request, bool granted) noexcept;

  const std::unique_ptr<LockTable> table_;
  std::optional<lease::LeaseRequest> placed_;  // has places in line, or has passed others' places
  std::optional<lease::Key> granted_;          // the first key of the last grant: a pool's member
  // The last try may have been granted without a confirmed reply. The renewal that proves the grant then also
  // checks grant_is_safe().
  bool unproved_ = false;
  Clock& clock_;
};

}  // namespace dblock::store
