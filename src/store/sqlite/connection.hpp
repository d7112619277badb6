// One connection to the embedded store. No raw handle leaves this folder.
//
// Settings chosen by measurement: write-ahead log, synchronous=NORMAL, no checkpoint when the last connection
// closes. A killed process loses nothing. A power cut can lose the last commits, never the file
// (sqlite.org/wal.html, section 4, "Performance Considerations").
//
// THREADING: not thread-safe, except interrupt().
#pragma once

#include <sqlite3.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "store/attempt.hpp"
#include "store/config/settings.hpp"
#include "store/rows.hpp"
#include "store/session_options.hpp"
#include "store/sqlite/boot.hpp"
#include "store/sqlite/errors.hpp"
#include "store/sqlite/witness.hpp"
#include "store/verbs.hpp"

namespace dblock::store::sqlite {

enum class SchemaCheck { on, off };

// Identifies the file at a path.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

// The effect of a statement that changes rows.
struct ChangeEffect {
  std::vector<Row> rows;      // from its RETURNING clause
  std::uint64_t changed = 0;  // how many rows it changed
};

class Connection {
 public:
  // The clock must outlive the connection.
  Connection(SqliteSettings settings, const SessionOptions& options, Clock& clock, SchemaCheck check);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Everything below happens while a Call lives; calls are not nested. `attempt` begins error messages. The
  // time limit for waiting for other processes counts from its beginning, and only in it interrupt() has an
  // effect.
  class Call {
   public:
    Call(Connection& connection, Attempt attempt);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Connection& connection_;
  };

  // Opens the store, unless it is open and its files are still those of that name. Creates the tables of a
  // new store and migrates an older one, unless SchemaCheck is off.
  [[nodiscard]] Result<void> ensure_open();

  // Runs one statement to its end, as part of a transaction or, if it only reads, alone. Every statement gets
  // :boot, :wall, :offset (microseconds) and :boot_id. Fails if another parameter has no value. REQUIRES:
  // ensure_open() succeeded in this call.
  [[nodiscard]] Result<std::vector<Row>> run(std::string_view sql, const Parameters& parameters, Phase phase);

  // Runs one statement that changes rows, in a transaction of its own unless one is open. Reads the clock
  // under the write lock: a statement that waited for other processes must not judge by the time before (I3).
  [[nodiscard]] Result<ChangeEffect> change(std::string_view sql, const Parameters& parameters);

  // Prepares a statement in advance, so that run() or change() takes less time. Ignores failures.
  void prepare_ahead(std::string_view sql) noexcept;

  // Runs statements without parameters or results, separated by semicolons.
  [[nodiscard]] Result<void> run_script(const std::string& sql);

  // Runs `body` in one transaction, alone among writers. Rolls back if `body` fails or changes nothing.
  template <typename Body>
  [[nodiscard]] Result<void> in_transaction(const Body& body) {
    DBLOCK_CHECK(run("BEGIN IMMEDIATE", {}, Phase::write));
    const auto before = changes_so_far();
    auto done = body();
    if (done) done = commit(before);
    if (!done) roll_back();
    return done;
  }
  // Runs `body`, which only reads: all reads see the store at one moment.
  template <typename Body>
  [[nodiscard]] Result<void> in_view(const Body& body) {
    DBLOCK_CHECK(run("BEGIN", {}, Phase::read));
    auto done = body();
    roll_back();
    return done;
  }

  // True inside in_transaction() and in_view().
  [[nodiscard]] bool transaction_open() const noexcept;

  // How many changes were committed to the store. Fails if the store has no tables yet. Errc::config if the
  // witness has seen more changes in this boot than the store has: then the store has lost some.
  [[nodiscard]] Result<std::uint64_t> read_changes();
  // The same check for a store without tables yet: Errc::config if the witness has seen any changes.
  [[nodiscard]] Result<void> check_unused();

  // Writes the log back into the main file and empties it, unless other connections are at work.
  void empty_log() noexcept;

  void close() noexcept;
  // Thread-safe: see lease::LeaseStore::interrupt().
  void interrupt() noexcept;

  // The store's URL for messages, escaped.
  [[nodiscard]] std::string where() const;
  [[nodiscard]] Attempt& attempt() { return attempt_; }
  // An error of the call: "cannot renew lock "k" in sqlite:/path: why".
  [[nodiscard]] std::unexpected<Error> refuse(Errc code, const std::string& why) const;

 private:
  struct CloseHandle {
    void operator()(sqlite3* handle) const noexcept { sqlite3_close_v2(handle); }
  };
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;
  // Ends one use of a statement, which stays prepared: frees its grip on the store and its values.
  struct ResetStatement {
    void operator()(sqlite3_stmt* statement) const noexcept {
      sqlite3_reset(statement);
      sqlite3_clear_bindings(statement);
    }
  };
  using StatementUse = std::unique_ptr<sqlite3_stmt, ResetStatement>;

  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<void> configure();
  [[nodiscard]] std::unexpected<Error> lost_changes() const;
  [[nodiscard]] std::vector<FileId> side_files() const;
  [[nodiscard]] bool files_moved() const;
  [[nodiscard]] std::int64_t changes_so_far() const;
  [[nodiscard]] Result<void> commit(std::int64_t before);
  // Returns the statement, prepared at its first use. The caller resets it and clears its values
  // (StatementUse).
  [[nodiscard]] Result<sqlite3_stmt*> prepare(std::string_view sql);
  // The same, and binds the values of the parameters.
  [[nodiscard]] Result<sqlite3_stmt*> prepare(std::string_view sql, const Parameters& parameters);
  // Runs the statement once and stores its rows; returns the last result code.
  [[nodiscard]] int step_through(sqlite3_stmt* statement, std::vector<Row>& rows);
  void bind_clocks(sqlite3_stmt* statement);
  void roll_back() noexcept;
  // Reserves disk space for the log, so that a full disk does not end the leases of running jobs. Not every
  // file system supports that; failures are ignored.
  void reserve_log() const noexcept;
  void close_handle() noexcept;
  [[nodiscard]] Error failure(int code, Phase phase);
  [[nodiscard]] bool pause_for_others(int tries);

  SqliteSettings settings_;
  const SessionOptions options_;
  Clock& clock_;
  const SchemaCheck check_;
  Attempt attempt_;  // of the current call, or of the last one
  Boot boot_;
  Witness witness_;
  std::vector<FileId> side_files_;  // the log and its index when the store was opened
  std::minstd_rand random_;
  BootTime give_up_at_{};
  int log_frames_ = 0;  // frames in the write-ahead log after the last commit

  std::mutex mutex_;  // guards the next three members, which interrupt() uses
  std::unique_ptr<sqlite3, CloseHandle> handle_;
  bool in_call_ = false;
  bool interrupted_ = false;

  std::vector<Statement> statements_;  // prepared on handle_; declared after it, so destroyed before it
};

}  // namespace dblock::store::sqlite
