// The contract's hand on a MariaDB store, and what the MariaDB cases share.
#pragma once

#include <memory>
#include <string>

#include "contract/lease_store_suite.hpp"
#include "store/open.hpp"
#include "support/database.hpp"

namespace dblock::contract {

class MariadbUnderTest : public StoreUnderTest {
 public:
  // A fresh database on the suite's server, or on one that a case wants to itself.
  explicit MariadbUnderTest(const test::ServerAddress& server = test::shared_server(), bool migrated = true);

  std::unique_ptr<lease::LeaseStore> open() override { return open_at(database_.url()); }
  // With what dblock-pause(1) tells to grant, and no more.
  std::unique_ptr<store::Database> open_database() override;
  void age(const std::string& key, Micros by, bool with_token) override;
  void age_hold(const std::string& key, std::uint32_t slot, Micros by) override;
  void set_promise(const std::string& key, Promise which, Micros from_now) override;
  void age_pauses(Micros by) override;
  void delete_row(const std::string& key) override;
  void keep_history(bool on) override;
  void age_history(Micros by) override;
  void copy_history(int times) override;

  [[nodiscard]] static std::unique_ptr<lease::LeaseStore> open_at(
      const std::string& url, std::chrono::seconds network_timeout = std::chrono::seconds{10});
  [[nodiscard]] std::unique_ptr<store::SchemaAdmin> admin() const;
  [[nodiscard]] test::ServerDatabase& database() { return database_; }
  [[nodiscard]] std::string where(const std::string& key) const;
  // How often a statement has waited for a row on this server, which a case must have to itself.
  [[nodiscard]] long long lock_waits();

 private:
  test::ServerDatabase database_;
};

[[nodiscard]] store::Settings settings_of(const std::string& url);

// A run's request with a TTL of a minute.
[[nodiscard]] lease::LeaseRequest request_for(const std::string& key, const std::string& owner,
                                              lease::Sharing sharing = {});

}  // namespace dblock::contract
