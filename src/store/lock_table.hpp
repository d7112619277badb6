// The table dblock_lock as one kind of database keeps it: what TableLeaseStore needs done to its rows. Each
// function that changes a row decides and changes in one statement, by the database's clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "lease/store.hpp"

namespace dblock::store {

struct Renewal {
  Micros ttl{0};                                  // the length that was granted
  std::optional<lease::ServerTime> expires_at{};  // where the statement tells it
};

// THREADING, CONNECTION, ERRORS: as lease::LeaseStore. `attempt` begins every message: "cannot renew lock
// "k"".
class LockTable {
 public:
  LockTable() = default;
  LockTable(const LockTable&) = delete;
  LockTable& operator=(const LockTable&) = delete;
  virtual ~LockTable() = default;

  // Around everything below: between the two interrupt() breaks what is under way.
  virtual void begin_call() = 0;
  virtual void end_call() noexcept = 0;

  // What connecting is called in messages.
  [[nodiscard]] virtual std::string connecting() const { return "cannot connect to the database"; }
  // Opens the connection, unless it is open and sound.
  [[nodiscard]] virtual Result<void> ensure_open(const std::string& attempt) = 0;

  // The token, when the row was there and free to grant.
  [[nodiscard]] virtual Result<std::optional<lease::Token>> grant(const lease::AcquireRequest& request,
                                                                  const std::string& attempt) = 0;
  // The same for a key without a row; nullopt when there is one by now.
  [[nodiscard]] virtual Result<std::optional<lease::Token>> create(const lease::AcquireRequest& request,
                                                                   const std::string& attempt) = 0;
  // nullopt, false: no row matched.
  [[nodiscard]] virtual Result<std::optional<Renewal>> renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                             std::optional<Micros> ttl,
                                                             const std::string& attempt) = 0;
  [[nodiscard]] virtual Result<bool> release(const lease::LeaseRef& ref, lease::Actor actor,
                                             lease::RunEnd end, const std::string& attempt) = 0;
  virtual void prepare_release() noexcept {}
  [[nodiscard]] virtual Result<bool> revoke(const lease::Key& key, lease::Token token,
                                            const std::string& attempt) = 0;
  [[nodiscard]] virtual Result<bool> free_now(const lease::Key& key, lease::Token token,
                                              const std::string& attempt) = 0;

  [[nodiscard]] virtual Result<std::optional<lease::LockStatus>> look(const lease::Key& key,
                                                                      const std::string& attempt) = 0;
  [[nodiscard]] virtual Result<lease::Listing> list(const lease::Selection& selection,
                                                    const std::string& attempt) = 0;
  [[nodiscard]] virtual Result<lease::ReapReport> reap(const lease::ReapRequest& request,
                                                       const std::string& attempt) = 0;

  virtual lease::Turnstile* turnstile() noexcept { return nullptr; }
  virtual void close() noexcept = 0;
  virtual void interrupt() noexcept = 0;
};

// Widths of the columns for people, in bytes of UTF-8 (columns of MariaDB count characters).
inline constexpr std::size_t k_name_bytes = 255;
inline constexpr std::size_t k_command_bytes = 2000;
inline constexpr std::size_t k_note_bytes = 1000;

// A statement may have been blocked with yesterday's clock; its token must still be greater than any that a
// deleted row ever had (I2).
inline constexpr Micros k_least_idle_time = std::chrono::hours(24);

// The least byte string greater than all that start with `prefix`; empty when there is none.
[[nodiscard]] std::string after_prefix(std::string prefix);

// What the row's own times say. REQUIRES: everything else in `status` is set.
[[nodiscard]] lease::State state_of(const lease::LockStatus& status);

}  // namespace dblock::store
