// The table of locks in the embedded store.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/lock_table.hpp"
#include "store/sqlite/connection.hpp"

namespace dblock::store::sqlite {

class SqliteLockTable final : public LockTable {
 public:
  SqliteLockTable(const SqliteSettings& settings, const SessionOptions& options, Clock& clock);

  void begin_call() override { connection_.begin_call(); }
  void end_call() noexcept override { connection_.end_call(); }
  [[nodiscard]] std::string connecting() const override { return "cannot use the store"; }
  Result<void> ensure_open(const std::string& attempt) override { return connection_.ensure_open(attempt); }
  Result<std::optional<lease::Token>> grant(const lease::AcquireRequest& request,
                                            const std::string& attempt) override;
  Result<std::optional<lease::Token>> create(const lease::AcquireRequest& request,
                                             const std::string& attempt) override;
  Result<std::optional<Renewal>> renew(const lease::LeaseRef& ref, lease::Actor actor,
                                       std::optional<Micros> ttl, const std::string& attempt) override;
  Result<bool> release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                       const std::string& attempt) override;
  void prepare_release() noexcept override;
  Result<bool> revoke(const lease::Key& key, lease::Token token, const std::string& attempt) override;
  Result<bool> free_now(const lease::Key& key, lease::Token token, const std::string& attempt) override;
  Result<std::optional<lease::LockStatus>> look(const lease::Key& key, const std::string& attempt) override;
  Result<lease::Listing> list(const lease::Selection& selection, const std::string& attempt) override;
  Result<lease::ReapReport> reap(const lease::ReapRequest& request, const std::string& attempt) override;
  lease::Turnstile* turnstile() noexcept override { return turnstile_.get(); }
  void close() noexcept override { connection_.close(); }
  void interrupt() noexcept override { connection_.interrupt(); }

 private:
  [[nodiscard]] Result<bool> change_one(std::string_view sql, const Parameters& parameters,
                                        const std::string& attempt);
  [[nodiscard]] Result<std::vector<lease::LockStatus>> free_expired(bool dry_run, const std::string& attempt);
  [[nodiscard]] Result<std::uint64_t> forget_idle(Micros forget_after, const std::string& attempt);
  [[nodiscard]] Result<void> forget_batch(Micros forget_after, std::uint64_t& forgotten,
                                          const std::string& attempt);

  Connection connection_;
  std::unique_ptr<lease::Turnstile> turnstile_;
};

}  // namespace dblock::store::sqlite
