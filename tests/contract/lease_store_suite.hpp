// The contract of lease/store.hpp as test cases (lease_store_suite.cpp, sharing_suite.cpp, …), for every
// backend. A backend joins with one source that defines make_store_under_test() and one executable that also
// compiles them with -DDBLOCK_STORE_NAME="…" (see CMakeLists.txt).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lease/store.hpp"
#include "store/database.hpp"

namespace dblock::contract {

// One empty, migrated store, and a hand on it past the contract.
class StoreUnderTest {
 public:
  StoreUnderTest() = default;
  StoreUnderTest(const StoreUnderTest&) = delete;
  StoreUnderTest& operator=(const StoreUnderTest&) = delete;
  virtual ~StoreUnderTest() = default;

  // A session of its own on the store.
  [[nodiscard]] virtual std::unique_ptr<lease::LeaseStore> open() = 0;
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
  // Runs that end are recorded from now on, or no more; the jobs' account may do what that takes.
  virtual void keep_history(bool on) = 0;
  virtual void age_history(Micros by) = 0;
  virtual void copy_history(int times) = 0;  // of every record, a second older each

  // By how much times in rows may differ from the clock that decides, where that is not the same clock.
  [[nodiscard]] virtual Micros clock_jitter() const { return Micros{0}; }
};

[[nodiscard]] std::unique_ptr<StoreUnderTest> make_store_under_test();

// A row of a holder where there is one, else the first that is shown of the lock; nullopt: it has no row.
inline Result<std::optional<lease::LockStatus>> row_of(lease::LeaseStore& store, const lease::Key& key) {
  DBLOCK_TRY(auto listing, store.list({.keys = {key}, .prefix = {}, .held_only = false}));
  const auto held = std::ranges::find_if(listing.locks, [](const auto& row) { return !row.owner.empty(); });
  if (held != listing.locks.end()) return std::move(*held);
  if (listing.locks.empty()) return std::nullopt;
  return std::move(listing.locks.front());
}

}  // namespace dblock::contract
