// The table of locks on MariaDB and MySQL: the SQL is in statements, the session in connection.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/lock_table.hpp"
#include "store/mariadb/connection.hpp"
#include "store/mariadb/history.hpp"
#include "store/mariadb/replicas.hpp"
#include "store/mariadb/turnstile.hpp"
#include "store/verbs.hpp"

namespace dblock::store::mariadb {

// lock_key and slot.
using RowId = std::pair<std::string, std::uint32_t>;

class MariadbLockTable final : public LockTable {
 public:
  MariadbLockTable(const MariadbSettings& settings, const SessionOptions& options);

  void begin_call(Patience patience) override {
    call_.emplace(connection_, patience == Patience::renewal ? renewal_timeout_ : Micros{0});
    looking_.emplace(looks_);
  }
  void end_call() noexcept override {
    looking_.reset();
    call_.reset();
  }
  Result<void> ensure_open(const std::string& attempt) override;
  Result<void> in_transaction(const std::string& attempt, const Body& body) override;
  Result<std::vector<std::optional<Scene>>> survey(const std::vector<lease::Key>& keys, bool to_change,
                                                   const std::string& attempt) override;
  Result<void> add(const lease::Key& key, const std::string& attempt) override;
  Result<void> mend(const lease::Key& key, const std::string& attempt) override;
  Result<bool> kept_by_fence(const lease::Key& key, const Error& why, const std::string& attempt) override;
  Result<void> put(const lease::AcquireRequest& request, const std::vector<Place>& places, lease::Token token,
                   const std::string& attempt) override;
  Result<bool> abandon(const lease::LockStatus& lease, const std::string& attempt) override;
  Result<void> keep_readers_away(const lease::Key& key, lease::ServerTime until,
                                 const std::string& attempt) override;
  Result<void> let_readers_in(const lease::Key& key, lease::ServerTime until,
                              const std::string& attempt) override;
  Result<void> safe_to_grant(const std::string& attempt) override;
  Result<void> grant_is_safe(const std::string& attempt) override;
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
  Result<std::optional<lease::Token>> nest(const lease::LeaseRef& ref, const lease::Sharing& sharing,
                                           Micros ttl, const std::string& attempt) override;
  Result<bool> unnest(const lease::LeaseRef& ref, const std::string& attempt) override;
  Result<bool> revoke(const lease::Key& key, std::uint32_t slot, lease::Token token,
                      const std::string& attempt) override;
  Result<bool> free_now(const lease::Key& key, std::uint32_t slot, lease::Token token,
                        const std::string& attempt) override;
  Result<std::optional<lease::LockStatus>> look(const lease::Key& key, const std::string& attempt) override;
  Result<std::optional<lease::LockStatus>> look_where_written(const lease::Key& key,
                                                              const std::string& attempt) override;
  Result<std::optional<lease::LockStatus>> look_in_line(const lease::Key& key,
                                                        const std::string& attempt) override;
  Result<lease::Listing> list(const lease::Selection& selection, const std::string& attempt) override;
  Result<lease::ReapReport> reap(const lease::ReapRequest& request, const std::string& attempt) override;
  Result<lease::History> history(const lease::HistoryQuery& query, const std::string& attempt) override;
  void record_ended() noexcept override { ended_.record(connection_); }
  lease::Turnstile* turnstile() noexcept override { return &turnstile_; }
  void close() noexcept override { connection_.close(); }
  void interrupt() noexcept override {
    connection_.interrupt();
    looks_.interrupt();
  }

 private:
  [[nodiscard]] Result<void> leave_the_line(const std::string& attempt);
  [[nodiscard]] Result<Changed> change(const std::string& sql, const std::string& attempt);
  [[nodiscard]] Result<std::optional<std::uint64_t>> change_and_hear(
      Verb verb, const Parameters& parameters, const std::string& attempt,
      const std::function<Result<bool>()>& undo);
  [[nodiscard]] Result<bool> change_one(const std::string& sql, const std::string& attempt);
  [[nodiscard]] Result<bool> insert_one(Verb verb, const lease::Key& key, std::uint32_t slot,
                                        const std::string& attempt);
  [[nodiscard]] Result<void> make_room(const Place& place, const lease::Sharing& asked,
                                       const std::string& attempt);
  void add_waiters(lease::Listing& listing);
  enum class Detail { row, row_and_place };
  [[nodiscard]] Result<std::optional<lease::LockStatus>> look(const lease::Key& key, Detail detail,
                                                              const std::string& attempt);
  [[nodiscard]] Result<std::optional<lease::LockStatus>> look_by(Connection& connection,
                                                                 const lease::Key& key, Detail detail,
                                                                 const std::string& attempt);
  [[nodiscard]] Result<std::optional<lease::LockStatus>> look_from_the_line(const lease::Key& key,
                                                                            Detail detail,
                                                                            const std::string& attempt);
  [[nodiscard]] std::optional<lease::PlaceInLine> place_seen_by(Connection& connection,
                                                                const lease::Key& key) const;

  Connection connection_;
  Connection looks_;  // open only for the length of a look while connection_ waits in line
  std::optional<lease::LockStatus> last_look_;
  std::vector<RowId> unfenced_;  // of the last survey to change
  const Micros renewal_timeout_;
  NamedLockTurnstile turnstile_;
  ReplicaCheck replicas_;
  EndedRuns ended_;
  std::optional<Connection::Call> call_;
  std::optional<Connection::Call> looking_;
};

}  // namespace dblock::store::mariadb
