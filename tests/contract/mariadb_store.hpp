// The contract's hand on a MariaDB store, and what the MariaDB cases share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "contract/lease_store_suite.hpp"
#include "lease/acquire.hpp"
#include "store/open.hpp"
#include "support/database.hpp"

namespace dblock::contract {

class MariadbUnderTest : public StoreUnderTest {
 public:
  // A fresh database on the suite's server, or on one that a case wants to itself.
  explicit MariadbUnderTest(const test::ServerAddress& server = test::shared_server(), bool migrated = true);

  std::unique_ptr<lease::LockBook> open() override { return open_at(database_.url()); }
  // With what dblock-pause(1) tells to grant, and no more.
  std::unique_ptr<store::Database> open_database() override;
  void age(const std::string& key, Micros by, bool with_token) override;
  void age_hold(const std::string& key, std::uint32_t slot, Micros by) override;
  void set_promise(const std::string& key, Promise which, Micros from_now) override;
  void age_pauses(Micros by) override;
  void delete_row(const std::string& key) override;
  void add_rows(const std::vector<RowState>& rows) override;
  void set_pause(const std::string& prefix, std::optional<Micros> ends) override;
  void keep_history(bool on) override;
  void age_history(Micros by) override;
  void copy_history(int times) override;

  [[nodiscard]] static std::unique_ptr<lease::LockBook> open_at(
      const std::string& url, std::chrono::seconds network_timeout = std::chrono::seconds{10});
  [[nodiscard]] std::unique_ptr<store::SchemaAdmin> admin() const;
  [[nodiscard]] test::ServerDatabase& database() { return database_; }
  [[nodiscard]] std::string where(const std::string& key) const;
  // How often a statement has waited for a row on this server, which a case must have to itself.
  [[nodiscard]] long long lock_waits();
  [[nodiscard]] long long connected();  // sessions of this server
  // Opens sessions of `user`, who has this database at hand, until `in_use` counts so many.
  void fill(std::vector<test::Connection>& others, long long count, const std::function<long long()>& in_use,
            const std::string& user = "app");
  // How many sessions of this database sleep behind another request's, as the server sees them.
  [[nodiscard]] long long asleep();

 private:
  test::ServerDatabase database_;
};

[[nodiscard]] store::Settings settings_of(const std::string& url);

// A run's request with a TTL of a minute.
[[nodiscard]] lease::LeaseRequest request_for(const std::string& key, const std::string& owner,
                                              lease::Sharing sharing = {});

// A request that holds its lock, and is there for those who sleep behind it.
class HoldingRun {
 public:
  HoldingRun(const std::string& url, const lease::LeaseRequest& request);
  void end();  // releases the lock, and wakes who sleeps behind it
  [[nodiscard]] lease::LockBook& store() { return *store_; }
  [[nodiscard]] const lease::Lease& lease() const { return lease_; }

 private:
  [[nodiscard]] static lease::Lease take(lease::LockBook& store, const lease::LeaseRequest& request);
  std::unique_ptr<lease::LockBook> store_;
  lease::Lease lease_;
};

// A request that waits for its lock on a thread of its own, for an hour at most, and does with it what a run
// does. `job`: on that thread, while the lock is held.
class WaitingRun {
 public:
  using Job = std::function<void(const lease::Lease&)>;
  WaitingRun(std::string url, lease::LeaseRequest request, Job job = {});
  ~WaitingRun() { cancel(); }
  WaitingRun(const WaitingRun&) = delete;
  WaitingRun& operator=(const WaitingRun&) = delete;

  void cancel() { cancel_.raise(); }
  // Its place among those who wait, as it was told last; 0: it has not waited yet.
  [[nodiscard]] std::size_t place() const { return place_.load(); }
  [[nodiscard]] bool ended() const { return ended_.load(); }
  // Of the acquisition. Waits for the end.
  [[nodiscard]] const Result<lease::AcquireOutcome>& outcome();
  [[nodiscard]] bool granted();
  [[nodiscard]] BootTime decided_at();

 private:
  void run(const std::string& url, const lease::LeaseRequest& request, const Job& job);
  WakeEvent cancel_;
  std::atomic<std::size_t> place_ = 0;
  std::atomic<bool> ended_ = false;
  std::optional<Result<lease::AcquireOutcome>> outcome_;
  BootTime decided_at_{};
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace dblock::contract
