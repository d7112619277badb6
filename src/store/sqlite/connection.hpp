// One connection to the embedded store. No raw handle leaves this folder.
//
// Chosen by measurement: write-ahead log, synchronous=NORMAL, no checkpoint when the last connection closes.
// A killed process loses nothing; a power cut can lose the last commits before it, never the file
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
#include "store/config/settings.hpp"
#include "store/open.hpp"
#include "store/rows.hpp"
#include "store/sqlite/boot.hpp"
#include "store/sqlite/errors.hpp"
#include "store/sqlite/witness.hpp"
#include "store/verbs.hpp"

namespace dblock::store::sqlite {

enum class SchemaCheck { on, off };

// Which file a path led to.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

// What a statement that changes rows did.
struct Change {
  std::vector<Row> rows;      // of its RETURNING clause
  std::uint64_t changed = 0;  // rows changed
};

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

  // Runs one statement to its end, alone (then it only reads) or as part of a transaction. :boot, :wall,
  // :offset (microseconds) and :boot_id are known to every statement. A statement of which another parameter
  // has no value fails. REQUIRES: ensure_open() succeeded in this call.
  [[nodiscard]] Result<std::vector<Row>> run(std::string_view sql, const Parameters& parameters,
                                             const std::string& attempt, Phase phase);

  // One statement that changes rows, as a transaction unless one is open. The clock is read under the write
  // lock: an answer that had to wait for other processes must not go by the time before (I3).
  [[nodiscard]] Result<Change> change(std::string_view sql, const Parameters& parameters,
                                      const std::string& attempt);

  // Prepares a statement that run() or change() will be asked for, so that it takes less time then. Quietly
  // does nothing where that fails.
  void prepare_ahead(std::string_view sql) noexcept;

  // Statements without parameters or answers, separated by semicolons.
  [[nodiscard]] Result<void> run_script(const std::string& sql, const std::string& attempt);

  // Everything `body` does is one transaction that no other writer comes between, rolled back when it fails
  // or changes nothing.
  template <typename Body>
  [[nodiscard]] Result<void> in_transaction(const std::string& attempt, const Body& body) {
    DBLOCK_CHECK(run("BEGIN IMMEDIATE", {}, attempt, Phase::write));
    const auto before = changes_so_far();
    auto done = body();
    if (done) done = commit(before, attempt);
    if (!done) roll_back();
    return done;
  }
  // Everything `body` reads is the store at one moment.
  template <typename Body>
  [[nodiscard]] Result<void> in_view(const std::string& attempt, const Body& body) {
    DBLOCK_CHECK(run("BEGIN", {}, attempt, Phase::read));
    auto done = body();
    roll_back();
    return done;
  }

  // Between the beginning and the end of either.
  [[nodiscard]] bool transaction_open() const noexcept;

  // How many changes the store has. Fails where it has no tables yet, and when more changes were seen in this
  // boot than it has.
  [[nodiscard]] Result<std::uint64_t> read_changes(const std::string& attempt);
  // The same for a store without tables yet: fails when any were seen.
  [[nodiscard]] Result<void> check_unused(const std::string& attempt);

  // Writes everything into the main file and empties the log, unless others are at work.
  void empty_log() noexcept;

  void close() noexcept;
  // Thread-safe: see lease::LeaseStore::interrupt().
  void interrupt() noexcept;

  // The store's name for messages.
  [[nodiscard]] std::string where() const;

 private:
  struct CloseHandle {
    void operator()(sqlite3* handle) const noexcept { sqlite3_close_v2(handle); }
  };
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;
  // Ends the use of a statement that is kept: it lets go of the store and of the values.
  struct LetGo {
    void operator()(sqlite3_stmt* statement) const noexcept {
      sqlite3_reset(statement);
      sqlite3_clear_bindings(statement);
    }
  };
  using InUse = std::unique_ptr<sqlite3_stmt, LetGo>;

  [[nodiscard]] Result<void> open(const std::string& attempt);
  [[nodiscard]] Result<void> configure(const std::string& attempt);
  [[nodiscard]] std::unexpected<Error> lost_changes(const std::string& attempt) const;
  [[nodiscard]] std::vector<FileId> side_files() const;
  [[nodiscard]] bool files_moved() const;
  [[nodiscard]] std::int64_t changes_so_far() const;
  [[nodiscard]] Result<void> commit(std::int64_t before, const std::string& attempt);
  // Prepared before, or now; for whoever asks next it must be left reset and without values.
  [[nodiscard]] Result<sqlite3_stmt*> prepare(std::string_view sql, const std::string& attempt);
  // The same, with the values of its parameters.
  [[nodiscard]] Result<sqlite3_stmt*> prepare(std::string_view sql, const Parameters& parameters,
                                              const std::string& attempt);
  // One run through the rows; the result code that ended it.
  [[nodiscard]] int step_through(sqlite3_stmt* statement, std::vector<Row>& rows);
  void bind_moment(sqlite3_stmt* statement);
  void roll_back() noexcept;
  // Sets disk space aside for the log, so that a disk that fills up does not end the leases of running jobs.
  // Does what it can: not every file system knows this.
  void reserve_log() const noexcept;
  void drop() noexcept;
  [[nodiscard]] Error failure(const std::string& attempt, int code, Phase phase);
  [[nodiscard]] bool pause_for_others(int tries);

  SqliteSettings settings_;
  const SessionOptions options_;
  Clock& clock_;
  const SchemaCheck check_;
  Boot boot_;
  Witness witness_;
  std::vector<FileId> side_files_;  // of the log and its index, as they were opened
  std::minstd_rand random_;
  BootTime give_up_at_{};
  int log_frames_ = 0;  // in the write-ahead log, as of the last commit

  std::mutex mutex_;  // guards what interrupt() touches
  std::unique_ptr<sqlite3, CloseHandle> handle_;
  bool in_call_ = false;
  bool interrupted_ = false;

  std::vector<Statement> statements_;  // of the handle, which must outlive them
};

}  // namespace dblock::store::sqlite
