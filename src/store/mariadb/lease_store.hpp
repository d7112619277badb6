// lease::LeaseStore on MariaDB and MySQL. The SQL is in statements, the session in connection; here is what
// each verb makes of the answers.
#pragma once

#include <optional>
#include <string>

#include "lease/store.hpp"
#include "store/mariadb/connection.hpp"

namespace dblock::store::mariadb {

class MariadbLeaseStore final : public lease::LeaseStore {
 public:
  MariadbLeaseStore(const Settings& settings, const SessionOptions& options, Clock& clock);

  Result<void> connect() override;
  Result<lease::AcquireOutcome> try_acquire(const lease::AcquireRequest& request) override;
  Result<std::optional<lease::LockStatus>> peek(const lease::Key& key) override;
  Result<lease::RenewOutcome> renew(const lease::LeaseRef& ref, lease::Actor actor,
                                    std::optional<Micros> ttl) override;
  Result<lease::ReleaseOutcome> release(const lease::LeaseRef& ref, lease::Actor actor,
                                        lease::RunEnd end) override;
  Result<lease::ForceOutcome> revoke(const lease::Key& key, lease::Token token) override;
  Result<lease::ForceOutcome> free_now(const lease::Key& key, lease::Token token) override;
  Result<lease::Listing> list(const lease::Selection& selection) override;
  Result<lease::ReapReport> reap(const lease::ReapRequest& request) override;
  void disconnect() noexcept override;
  void interrupt() noexcept override;

 private:
  using Seen = std::optional<lease::LockStatus>;

  [[nodiscard]] Result<Seen> look(const lease::Key& key, const std::string& attempt);
  // One round of try_acquire(); nullopt when the row changed under it and another round is due.
  [[nodiscard]] Result<std::optional<lease::AcquireOutcome>> try_once(const lease::AcquireRequest& request,
                                                                      BootTime sent_at,
                                                                      const std::string& attempt);
  [[nodiscard]] Result<std::optional<lease::AcquireOutcome>> try_create(const lease::AcquireRequest& request,
                                                                        BootTime sent_at,
                                                                        const std::string& attempt);
  // Why a renewal or release matched no row. An error when the row gives no reason.
  [[nodiscard]] Result<lease::NotOurs> why_not(const lease::LeaseRef& ref, lease::Actor actor, bool renewing,
                                               const std::string& attempt);
  [[nodiscard]] Result<lease::ForceOutcome> force(const lease::Key& key, lease::Token token,
                                                  const std::string& sql, bool now,
                                                  const std::string& attempt);

  Connection connection_;
  Clock& clock_;
};

}  // namespace dblock::store::mariadb
