// The contract's hand on an embedded store, and what its own cases share.
#pragma once

#include <memory>
#include <string>

#include "contract/lease_store_suite.hpp"
#include "store/open.hpp"
#include "support/config.hpp"
#include "support/local_file.hpp"

namespace dblock::contract {

class SqliteUnderTest final : public StoreUnderTest {
 public:
  SqliteUnderTest() = default;

  std::unique_ptr<lease::LockBook> open() override { return open_with(clock_); }
  std::unique_ptr<store::Database> open_database() override {
    return store::open_database(store::SqliteSettings{path()}, {}, clock_);
  }
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
  [[nodiscard]] Micros clock_jitter() const override { return std::chrono::milliseconds(1); }

  [[nodiscard]] std::unique_ptr<lease::LockBook> open_with(
      Clock& clock, std::chrono::seconds network_timeout = std::chrono::seconds{10}) const;
  [[nodiscard]] std::unique_ptr<store::SchemaAdmin> admin() const;
  [[nodiscard]] std::string path() const { return directory_.file("locks.db"); }
  std::vector<test::Row> sql(const std::string& query) const { return test::sqlite_sql(path(), query); }
  std::string value(const std::string& query) const { return test::sqlite_value(path(), query); }

  // Makes the lock's rows such as processes of an earlier boot of this host left.
  void reboot(const std::string& key) const;

 private:
  test::TempDir directory_;
  mutable SystemClock clock_;
};

}  // namespace dblock::contract
