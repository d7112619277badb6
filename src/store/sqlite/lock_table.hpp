// The tables of locks and holds in the embedded store.
#pragma once

#include <optional>
#include <string>

#include "store/lock_table.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/turnstile.hpp"

namespace dblock::store::sqlite {

class SqliteLockTable final : public LockTable {
 public:
  SqliteLockTable(const SqliteSettings& settings, const SessionOptions& options, Clock& clock);

  // There is no network to lose an answer.
  void begin_call(Patience /*patience*/) override { connection_.begin_call(); }
  void end_call() noexcept override { connection_.end_call(); }
  [[nodiscard]] std::string connecting() const override { return "cannot use the store"; }
  Result<void> ensure_open(const std::string& attempt) override { return connection_.ensure_open(attempt); }
  Result<void> in_transaction(const std::string& attempt, const Body& body) override;
  Result<std::vector<std::optional<Scene>>> survey(const std::vector<lease::Key>& keys, bool to_change,
                                                   const std::string& attempt) override;
  Result<void> add(const lease::Key& key, const std::string& attempt) override;
  Result<void> put(const lease::AcquireRequest& request, const std::vector<Place>& places, lease::Token token,
                   const std::string& attempt) override;
  Result<bool> abandon(const lease::LockStatus& lease, const std::string& attempt) override;
  Result<void> keep_readers_away(const lease::Key& key, lease::ServerTime until,
                                 const std::string& attempt) override;
  Result<void> let_readers_in(const lease::Key& key, lease::ServerTime until,
                              const std::string& attempt) override;
  Result<std::optional<lease::Token>> grant(const lease::AcquireRequest& request,
                                            const std::string& attempt) override;
  Result<std::optional<lease::Token>> create(const lease::AcquireRequest& request,
                                             const std::string& attempt) override;
  Result<std::optional<Renewal>> renew(const lease::LeaseRef& ref, lease::Actor actor,
                                       std::optional<Micros> ttl, const std::string& attempt) override;
  Result<bool> release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                       const std::string& attempt) override;
  Result<std::vector<lease::Key>> release_all(const lease::LeaseRef& ref, lease::Actor actor,
                                              lease::RunEnd end, const std::string& attempt) override;
  void prepare_release() noexcept override;
  Result<std::optional<lease::Token>> nest(const lease::LeaseRef& ref, const lease::Sharing& sharing,
                                           Micros ttl, const std::string& attempt) override;
  Result<bool> unnest(const lease::LeaseRef& ref, const std::string& attempt) override;
  Result<bool> revoke(const lease::Key& key, std::uint32_t slot, lease::Token token,
                      const std::string& attempt) override;
  Result<bool> free_now(const lease::Key& key, std::uint32_t slot, lease::Token token,
                        const std::string& attempt) override;
  Result<std::optional<lease::LockStatus>> look(const lease::Key& key, const std::string& attempt) override;
  Result<std::optional<lease::LockStatus>> look_in_line(const lease::Key& key,
                                                        const std::string& attempt) override;
  Result<lease::Listing> list(const lease::Selection& selection, const std::string& attempt) override;
  Result<lease::ReapReport> reap(const lease::ReapRequest& request, const std::string& attempt) override;
  Result<lease::History> history(const lease::HistoryQuery& query, const std::string& attempt) override;
  lease::Turnstile* turnstile() noexcept override { return &turnstile_; }
  void close() noexcept override { connection_.close(); }
  void interrupt() noexcept override { connection_.interrupt(); }

 private:
  [[nodiscard]] Result<bool> change_one(Verb verb, const Parameters& parameters, const std::string& attempt);
  [[nodiscard]] Result<std::vector<lease::LockStatus>> free_expired(bool dry_run, const std::string& attempt);
  [[nodiscard]] Result<std::uint64_t> forget_idle(Micros forget_after, const std::string& attempt);
  [[nodiscard]] Result<void> forget_batch(Micros forget_after, std::uint64_t& forgotten,
                                          const std::string& attempt);

  Connection connection_;
  FileTurnstile turnstile_;
};

}  // namespace dblock::store::sqlite
