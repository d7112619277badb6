// The contract of lease/store.hpp as test cases (lease_store_suite.cpp, sharing_suite.cpp, …), for every
// backend. A backend joins with one source that defines make_store_under_test() and one executable that also
// compiles them with -DDBLOCK_STORE_NAME="…" (see CMakeLists.txt).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lease/store.hpp"
#include "store/database.hpp"

namespace dblock::contract {

// A row of dblock_lock in a state that no single call makes. Times count from now on. With an owner the row
// has a lease of a minute that was never renewed; else it was freed at `freed`.
struct RowState {
  std::string key;
  std::uint32_t slot = 0;
  lease::Sharing sharing{};
  bool was_granted = true;
  std::string owner{};  // empty: the row is free
  Micros freed{0};
  Micros margin{0};
  std::optional<Micros> expires{}, revoked{}, hold_until{}, succeeded{};
  std::optional<Micros> hold_length{};   // of the cooldown, as it was asked for; nullopt: not known
  std::optional<Micros> paused_until{};  // for a store whose rows tell it
};

// The columns that all stores have, and the values of one row; `time` writes a time as the store keeps it.
inline constexpr const char* k_row_columns =
    "lock_key,slot,mode,slots,lock_value,lock_count,create_time,update_time,expire_time,revoke_time,"
    "hold_until,success_acquired_at,success_released_at,token,margin_us,"
    "version,kind,ttl_us,holder_host,holder_pid,holder_user,holder_command,holder_note,hold_us";
using TimeAsSql = std::function<std::string(std::optional<Micros> from_now)>;
[[nodiscard]] std::string row_values(const RowState& row, const TimeAsSql& time);

// One empty, migrated store, and a hand on it past the contract.
class StoreUnderTest {
 public:
  StoreUnderTest() = default;
  StoreUnderTest(const StoreUnderTest&) = delete;
  StoreUnderTest& operator=(const StoreUnderTest&) = delete;
  virtual ~StoreUnderTest() = default;

  // A session of its own on the store.
  [[nodiscard]] virtual std::unique_ptr<lease::LockBook> open() = 0;
  // The same without the rules of leases (stepped_database.hpp).
  [[nodiscard]] virtual std::unique_ptr<store::Database> open_database() = 0;

  // Makes the lock's row, and those of its holds, look as if everything in them had happened `by` earlier;
  // with_token: the tokens as well. The places in its line stay as they are.
  virtual void age(const std::string& key, Micros by, bool with_token) = 0;
  // The same for one hold alone.
  virtual void age_hold(const std::string& key, std::uint32_t slot, Micros by) = 0;
  enum class Promise { hold_until, keep_until };
  virtual void set_promise(const std::string& key, Promise which, Micros from_now) = 0;
  // Makes all pauses look as if they had been made `by` earlier, with what they wrote into rows.
  virtual void age_pauses(Micros by) = 0;
  virtual void delete_row(const std::string& key) = 0;
  // Each row with what else the store keeps of it, but for pauses and places.
  virtual void add_rows(const std::vector<RowState>& rows) = 0;
  // Makes this the only pause: of the keys with the prefix, and until then. nullopt: there is none.
  virtual void set_pause(const std::string& prefix, std::optional<Micros> ends) = 0;
  // Runs that end are recorded from now on, or no more; the jobs' account may do what that takes.
  virtual void keep_history(bool on) = 0;
  virtual void age_history(Micros by) = 0;
  virtual void copy_history(int times) = 0;  // of every record, a second older each

  // By how much times in rows may differ from the clock that decides, where that is not the same clock.
  [[nodiscard]] virtual Micros clock_jitter() const { return Micros{0}; }
};

[[nodiscard]] std::unique_ptr<StoreUnderTest> make_store_under_test();

// A row of a holder where there is one, else the first that is shown of the lock; nullopt: it has no row.
inline Result<std::optional<lease::LockStatus>> row_of(lease::LockBook& store, const lease::Key& key) {
  DBLOCK_TRY(auto listing, store.list({.keys = {key}, .prefix = {}, .held_only = false}));
  const auto held = std::ranges::find_if(listing.locks, [](const auto& row) { return !row.owner.empty(); });
  if (held != listing.locks.end()) return std::move(*held);
  if (listing.locks.empty()) return std::nullopt;
  return std::move(listing.locks.front());
}

}  // namespace dblock::contract
