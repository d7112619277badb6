// One connection to the embedded store. No raw handle leaves this folder.
//
// Chosen by measurement: write-ahead log, synchronous=NORMAL, no checkpoint when the last connection closes.
// A killed process loses nothing; a power cut can lose the last commits before it, never the file
// (sqlite.org/wal.html, section 4, "Performance Considerations").
//
// THREADING: not thread-safe, except interrupt().
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "store/open.hpp"
#include "store/rows.hpp"
#include "store/settings.hpp"
#include "store/sqlite/boot.hpp"
#include "store/sqlite/errors.hpp"

namespace dblock::store::sqlite {

// A named parameter and its value; one that the statement does not use is passed over.
struct Parameter {
  const char* name = nullptr;  // ":key"
  std::variant<std::nullptr_t, std::int64_t, std::string> value;
};
using Parameters = std::vector<Parameter>;

enum class SchemaCheck { on, off };

class Connection {
 public:
  // The clock must outlive the connection.
  Connection(SqliteSettings settings, const SessionOptions& options, Clock& clock, SchemaCheck check);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Around everything below: how long other processes are waited for counts from here, and interrupt() works.
  void begin_call();
  void end_call() noexcept;

  // Opens the store, unless it is open and still the file of its name. Makes the tables of a new store, and
  // migrates an older one, unless the schema is not to be looked at.
  [[nodiscard]] Result<void> ensure_open(const std::string& attempt);

  // Runs one statement to its end. :boot, :wall, :offset (microseconds) and :boot_id are known to every
  // statement. REQUIRES: ensure_open() succeeded in this call.
  [[nodiscard]] Result<std::vector<Row>> run(std::string_view sql, const Parameters& parameters,
                                             const std::string& attempt, Phase phase);
  // The number of rows the last statement of run() changed.
  [[nodiscard]] std::uint64_t changed() const;

  // Statements without parameters or answers, separated by semicolons.
  [[nodiscard]] Result<void> run_script(const std::string& sql, const std::string& attempt);

  // Everything `body` does is one transaction that no other writer comes between, rolled back when it fails.
  template <typename Body>
  [[nodiscard]] Result<void> in_transaction(const std::string& attempt, const Body& body) {
    return between("BEGIN IMMEDIATE", "COMMIT", attempt, body);
  }
  // Everything `body` reads is the store at one moment.
  template <typename Body>
  [[nodiscard]] Result<void> in_view(const std::string& attempt, const Body& body) {
    return between("BEGIN", "ROLLBACK", attempt, body);
  }

  // Sets disk space aside for the log, so that a disk that fills up does not end the leases of running jobs.
  // Does what it can: not every file system knows this.
  void reserve_log() const noexcept;

  void close() noexcept;
  // Thread-safe: see lease::LeaseStore::interrupt().
  void interrupt() noexcept;

  [[nodiscard]] const SqliteSettings& settings() const { return settings_; }

 private:
  template <typename Body>
  [[nodiscard]] Result<void> between(const std::string& begin, const std::string& end,
                                     const std::string& attempt, const Body& body) {
    DBLOCK_CHECK(run_script(begin, attempt));
    if (auto done = body(); !done) {
      roll_back();
      return std::unexpected(std::move(done.error()));
    }
    auto ended = run_script(end, attempt);
    if (!ended) roll_back();
    return ended;
  }

  struct CloseHandle {
    void operator()(sqlite3* handle) const noexcept { sqlite3_close_v2(handle); }
  };
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

  [[nodiscard]] Result<void> open(const std::string& attempt);
  [[nodiscard]] Result<void> configure(const std::string& attempt);
  [[nodiscard]] bool file_moved() const;
  [[nodiscard]] Result<Statement> prepare(std::string_view sql, const std::string& attempt);
  // One run through the rows; the result code that ended it.
  [[nodiscard]] int step_through(sqlite3_stmt* statement, std::vector<Row>& rows);
  void bind(sqlite3_stmt* statement, const Parameters& parameters);
  void bind_moment(sqlite3_stmt* statement);
  void roll_back() noexcept;
  void tidy() noexcept;
  [[nodiscard]] Error failure(const std::string& attempt, int code, Phase phase) const;
  [[nodiscard]] bool pause_for_others(int tries);
  static int on_busy(void* self, int tries);

  const SqliteSettings settings_;
  const SessionOptions options_;
  Clock& clock_;
  const SchemaCheck check_;
  std::string boot_id_;
  std::minstd_rand random_;
  BootTime give_up_at_{};
  int log_frames_ = 0;  // in the write-ahead log, as of the last commit

  std::mutex mutex_;  // guards what interrupt() touches
  std::unique_ptr<sqlite3, CloseHandle> handle_;
  bool in_call_ = false;
  bool interrupted_ = false;
};

}  // namespace dblock::store::sqlite
