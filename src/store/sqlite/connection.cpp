#include "store/sqlite/connection.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "store/sqlite/file.hpp"
#include "store/sqlite/schema.hpp"

namespace dblock::store::sqlite {
namespace {

using namespace std::chrono_literals;

// If the write-ahead log has this many frames (one changed page each), a closing connection writes them back.
// The first connection that opens a store reads the whole log, about 0.6 us a KiB; writing back syncs the
// disk twice, tens of milliseconds. A run leaves four frames of 1 KiB.
constexpr int k_tidy_frames = 150;
// With this many frames a commit writes them back: a backstop in case every process dies before it can close.
constexpr int k_most_frames = 4000;

// Room for a few hundred renewals and releases after the disk has filled up.
constexpr off_t k_reserved_log = off_t{1024} * 1024;

// Other processes block the store for microseconds to a few milliseconds.
constexpr Micros k_shortest_pause = 50us;
constexpr Micros k_longest_pause = 5ms;

void configure_library() {
  static const bool once = [] {
    // A short run hardly uses counters and preallocated memory, and each page of that costs a page fault.
    ::sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    ::sqlite3_config(SQLITE_CONFIG_PAGECACHE, nullptr, 0, 0);
    ::sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
    return true;
  }();
  static_cast<void>(once);
}

// The parameters that bind_moment() binds.
constexpr std::array<std::string_view, 4> k_of_the_moment{"boot", "wall", "offset", "boot_id"};

// Binds a value. A token beyond SQLite's integers was never granted; as a negative number it matches no row.
void bind_value(sqlite3_stmt* statement, int index, const Scalar& value) {
  const auto bind_text = [&](std::string_view text) {
    ::sqlite3_bind_text64(statement, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  };
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    ::sqlite3_bind_int64(statement, index, *number);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&value)) {
    ::sqlite3_bind_int64(statement, index, static_cast<std::int64_t>(*natural));
  } else if (const auto* word = std::get_if<Word>(&value)) {
    bind_text(word->text);
  } else if (const auto* text = std::get_if<Text>(&value)) {
    bind_text(text->text);
  } else if (const auto* bytes = std::get_if<std::string>(&value)) {
    bind_text(*bytes);
  } else {
    ::sqlite3_bind_null(statement, index);
  }
}

// The placeholders for a list's values: ?,? or, with several columns, (?,?),(?,?).
std::string placeholders_of(const List& list) {
  std::string text;
  for (std::size_t i = 0; i < list.values.size(); ++i) {
    if (i > 0) text += ',';
    if (list.columns > 1 && i % list.columns == 0) text += '(';
    text += '?';
    if (list.columns > 1 && (i + 1) % list.columns == 0) text += ')';
  }
  return text;
}

// The statement with a placeholder for each value of its lists; appends those values to `listed`, in their
// order.
std::string with_placeholders(std::string_view sql, const Parameters& parameters,
                              std::vector<const Scalar*>& listed) {
  std::string text;
  std::size_t done = 0;
  for (auto next = find_parameter(sql, 0); next.colon != std::string_view::npos;
       next = find_parameter(sql, next.colon + 1)) {
    const Value* value = value_of(parameters, next.name);
    const auto* list = value != nullptr ? std::get_if<List>(value) : nullptr;
    if (list == nullptr) continue;
    text.append(sql.substr(done, next.colon - done)).append(placeholders_of(*list));
    done = next.colon + 1 + next.name.size();
    for (const auto& one : list->values) listed.push_back(&one);
  }
  return text.append(sql.substr(done));
}

Row row_of(sqlite3_stmt* statement) {
  Row row(static_cast<std::size_t>(::sqlite3_column_count(statement)));
  for (int i = 0; i < static_cast<int>(row.size()); ++i) {
    const auto column = static_cast<std::size_t>(i);
    const int type = ::sqlite3_column_type(statement, i);
    if (type == SQLITE_NULL) continue;
    if (type == SQLITE_INTEGER) {
      row.set(column, std::to_string(::sqlite3_column_int64(statement, i)));
      continue;
    }
    const void* bytes = ::sqlite3_column_blob(statement, i);
    const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(statement, i));
    row.set(column, bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size));
  }
  return row;
}

}  // namespace

Connection::Connection(SqliteSettings settings, const SessionOptions& options, Clock& clock,
                       SchemaCheck check)
    : settings_(std::move(settings)),
      options_(options),
      clock_(clock),
      check_(check),
      random_(static_cast<unsigned>(::getpid()) ^
              static_cast<unsigned>(clock.now().time_since_epoch().count())) {}

Connection::~Connection() {
  close();
}

void Connection::begin_call() {
  give_up_at_ = clock_.now() + options_.network_timeout;
  const std::lock_guard lock(mutex_);
  in_call_ = true;
  interrupted_ = false;
}

void Connection::end_call() noexcept {
  const std::lock_guard lock(mutex_);
  in_call_ = false;
}

void Connection::interrupt() noexcept {
  const std::lock_guard lock(mutex_);
  if (!in_call_) return;
  interrupted_ = true;
  if (handle_) ::sqlite3_interrupt(handle_.get());
}

Result<void> Connection::ensure_open(const std::string& attempt) {
  // If one of the store's files was removed or replaced, other processes use another store by now, and our
  // view of the old one is worthless.
  if (handle_ && files_moved()) drop();
  if (handle_) return {};
  auto opened = open(attempt);
  if (!opened) close();
  return opened;
}

Result<void> Connection::open(const std::string& attempt) {
  DBLOCK_TRY(boot_, read_boot());
  DBLOCK_TRY(const auto path, prepare_file(settings_, attempt));
  witness_ = Witness(path, boot_.id);
  configure_library();
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                    SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
  const int code = ::sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  {
    const std::lock_guard lock(mutex_);
    handle_.reset(raw);
  }
  if (code != SQLITE_OK) return std::unexpected(failure(attempt, code, Phase::read));
  DBLOCK_CHECK(configure(attempt));
  if (check_ == SchemaCheck::on) DBLOCK_CHECK(ensure_schema(*this, attempt));
  side_files_ = side_files();
  settings_.makes_directory = true;  // the path proved right: if the store is removed, make an empty new one
  return {};
}

// Reads the witness first, so that all changes it has seen are committed when the store is read.
Result<std::uint64_t> Connection::read_changes(const std::string& attempt) {
  const auto seen = witness_.changes();
  DBLOCK_TRY(const auto rows, run("SELECT changes FROM dblock_state", {}, attempt, Phase::read));
  const auto present = rows.empty() ? 0 : unsigned_number(rows.front()[0]);
  if (seen > present) return lost_changes(attempt);
  return present;
}

Result<void> Connection::configure(const std::string& attempt) {
  sqlite3* db = handle_.get();
  ::sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  ::sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  ::sqlite3_wal_hook(
      db,
      [](void* self, sqlite3* handle, const char*, int frames) {
        static_cast<Connection*>(self)->log_frames_ = frames;
        if (frames >= k_most_frames)
          ::sqlite3_wal_checkpoint_v2(handle, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
        return SQLITE_OK;
      },
      this);
  // SQLite opens a file that it may not write read-only, and would fail only at the first write.
  if (::sqlite3_db_readonly(db, "main") == 1)
    return std::unexpected(failure(attempt, SQLITE_READONLY, Phase::read));
  return run_script("PRAGMA synchronous=NORMAL", attempt);
}

std::vector<FileId> Connection::side_files() const {
  std::vector<FileId> files;
  const std::string path = ::sqlite3_db_filename(handle_.get(), "main");
  for (const auto* const suffix : {"-wal", "-shm"}) {
    struct stat seen {};
    const bool there = ::stat((path + suffix).c_str(), &seen) == 0;
    files.push_back(there ? FileId{seen.st_dev, seen.st_ino} : FileId{});
  }
  return files;
}

bool Connection::files_moved() const {
  int moved = 0;
  const int code = ::sqlite3_file_control(handle_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return code != SQLITE_OK || moved != 0 || side_files() != side_files_;
}

Result<sqlite3_stmt*> Connection::prepare(std::string_view sql, const std::string& attempt) {
  const auto known = std::ranges::find_if(
      statements_, [sql](const Statement& statement) { return sql == ::sqlite3_sql(statement.get()); });
  if (known != statements_.end()) return known->get();
  sqlite3_stmt* raw = nullptr;
  for (int tries = 0;; ++tries) {
    const int code =
        ::sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
    if (code == SQLITE_OK) return statements_.emplace_back(raw).get();
    if (!is_busy(code) || !pause_for_others(tries))
      return std::unexpected(failure(attempt, code, Phase::read));
  }
}

// The caller must keep the values alive until the statement has ended. Fails if a value is missing: with NULL
// in its place the statement could match more rows than the caller meant.
Result<sqlite3_stmt*> Connection::prepare(std::string_view sql, const Parameters& parameters,
                                          const std::string& attempt) {
  std::vector<const Scalar*> listed;
  DBLOCK_TRY(sqlite3_stmt* const statement, prepare(with_placeholders(sql, parameters, listed), attempt));
  auto next = listed.begin();
  for (int index = 1; index <= ::sqlite3_bind_parameter_count(statement); ++index) {
    const char* const name = ::sqlite3_bind_parameter_name(statement, index);
    if (name == nullptr) {
      bind_value(statement, index, **next++);
      continue;
    }
    if (std::ranges::find(k_of_the_moment, std::string_view(name + 1)) != k_of_the_moment.end()) continue;
    const Value* value = value_of(parameters, name + 1);
    if (value == nullptr) return std::unexpected(failure(attempt, SQLITE_MISUSE, Phase::read));
    bind_value(statement, index, std::get<Scalar>(*value));
  }
  return statement;
}

void Connection::bind_moment(sqlite3_stmt* statement) {
  if (::sqlite3_bind_parameter_count(statement) == 0) return;
  const Moment now = moment_now(clock_, boot_);
  const auto number = [statement](const char* name, Micros value) {
    const int index = ::sqlite3_bind_parameter_index(statement, name);
    if (index != 0) ::sqlite3_bind_int64(statement, index, value.count());
  };
  number(":boot", now.boot);
  number(":wall", now.wall);
  number(":offset", now.offset());
  const int index = ::sqlite3_bind_parameter_index(statement, ":boot_id");
  if (index != 0) {
    ::sqlite3_bind_text64(statement, index, boot_.id.data(), boot_.id.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
}

int Connection::step_through(sqlite3_stmt* statement, std::vector<Row>& rows) {
  rows.clear();
  bind_moment(statement);
  for (;;) {
    const int code = ::sqlite3_step(statement);
    if (code != SQLITE_ROW) return code;
    rows.push_back(row_of(statement));
  }
}

Result<std::vector<Row>> Connection::run(std::string_view sql, const Parameters& parameters,
                                         const std::string& attempt, Phase phase) {
  DBLOCK_TRY(sqlite3_stmt* const prepared, prepare(sql, parameters, attempt));
  const StatementUse statement(prepared);
  std::vector<Row> rows;
  for (int tries = 0;; ++tries) {
    const int code = step_through(statement.get(), rows);
    if (code == SQLITE_DONE) return rows;
    Error error = failure(attempt, code, phase);
    ::sqlite3_reset(statement.get());
    // Waits here instead of in SQLite's busy handler, so that each try reads the clock anew.
    if (!is_busy(code) || !pause_for_others(tries)) return std::unexpected(std::move(error));
  }
}

void Connection::prepare_ahead(std::string_view sql) noexcept {
  if (!handle_) return;
  [[maybe_unused]] const auto prepared = prepare(sql, "cannot prepare a statement");
}

Result<Change> Connection::change(std::string_view sql, const Parameters& parameters,
                                  const std::string& attempt) {
  // Prepares before the transaction, so that the write lock is held only for microseconds.
  DBLOCK_TRY(sqlite3_stmt* const prepared, prepare(sql, parameters, attempt));
  const StatementUse statement(prepared);
  Change done;
  const auto body = [&]() -> Result<void> {
    const int code = step_through(statement.get(), done.rows);
    done.changed = static_cast<std::uint64_t>(::sqlite3_changes64(handle_.get()));
    Result<void> ended;
    if (code != SQLITE_DONE) ended = std::unexpected(failure(attempt, code, Phase::write));
    ::sqlite3_reset(statement.get());  // a transaction cannot end while a statement is active
    return ended;
  };
  DBLOCK_CHECK(transaction_open() ? body() : in_transaction(attempt, body));
  return done;
}

std::int64_t Connection::changes_so_far() const {
  return ::sqlite3_total_changes64(handle_.get());
}

Result<void> Connection::commit(std::int64_t before, const std::string& attempt) {
  if (changes_so_far() == before) {
    roll_back();
    return {};
  }
  // The transaction excludes other writers between this read and the update.
  DBLOCK_TRY(auto changes, read_changes(attempt));
  ++changes;
  DBLOCK_CHECK(run("UPDATE dblock_state SET changes=:changes", {{"changes", Scalar(std::uint64_t{changes})}},
                   attempt, Phase::write));
  DBLOCK_CHECK(run("COMMIT", {}, attempt, Phase::write));
  witness_.saw(changes);
  return {};
}

Result<void> Connection::run_script(const std::string& sql, const std::string& attempt) {
  for (int tries = 0;; ++tries) {
    const int code = ::sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return {};
    if (!is_busy(code) || !pause_for_others(tries))
      return std::unexpected(failure(attempt, code, Phase::write));
  }
}

bool Connection::transaction_open() const noexcept {
  return handle_ && ::sqlite3_get_autocommit(handle_.get()) == 0;
}

void Connection::roll_back() noexcept {
  if (transaction_open()) ::sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

// Empties the log instead of only writing it back, because the first connection to open the store reads the
// whole log. Does not wait for other connections: the last one to close gets here, too.
void Connection::empty_log() noexcept {
  log_frames_ = 0;
  const int emptied =
      ::sqlite3_wal_checkpoint_v2(handle_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  // The first commit into an empty log syncs the disk: better this empty change than a grant.
  if (emptied != SQLITE_OK) return;
  ::sqlite3_exec(handle_.get(), "UPDATE dblock_state SET changes=changes", nullptr, nullptr, nullptr);
  reserve_log();
}

// Opens a descriptor of its own. To close it is safe: SQLite keeps its locks on the store's other files.
void Connection::reserve_log() const noexcept {
  const char* log = ::sqlite3_filename_wal(::sqlite3_db_filename(handle_.get(), "main"));
  const UniqueFd file(::open(log, O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file) ::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, k_reserved_log);
}

// Writes the log back from time to time; here and not at a commit, because a closing connection delays
// nobody.
void Connection::close() noexcept {
  if (handle_ && log_frames_ >= k_tidy_frames && !files_moved()) empty_log();
  drop();
}

void Connection::drop() noexcept {
  statements_.clear();
  const std::lock_guard lock(mutex_);
  handle_.reset();
}

std::string Connection::where() const {
  return escape_untrusted(settings_.display());
}

std::unexpected<Error> Connection::lost_changes(const std::string& attempt) const {
  return fail(Errc::config,
              attempt + " in " + where() +
                  ": changes made since this machine was started are missing in the file: its -wal file "
                  "was removed or damaged, or it is an older copy, so who holds what is lost. If no job "
                  "runs under its locks, remove it and all files beside it (-wal, -shm, -seen, -line), "
                  "and dblock makes a new one");
}

Result<void> Connection::check_unused(const std::string& attempt) {
  if (witness_.changes() != 0) return lost_changes(attempt);
  return {};
}

Error Connection::failure(const std::string& attempt, int code, Phase phase) {
  const std::lock_guard lock(mutex_);
  if (interrupted_ && is_busy(code)) code = SQLITE_INTERRUPT;
  return make_error(attempt, where(), handle_.get(), code, phase);
}

bool Connection::pause_for_others(int tries) {
  {
    const std::lock_guard lock(mutex_);
    if (interrupted_) return false;
  }
  if (clock_.now() >= give_up_at_) return false;
  const Micros most = std::min(k_longest_pause, k_shortest_pause * (1 + std::min(tries, 100)));
  std::uniform_int_distribution<Micros::rep> length(k_shortest_pause.count() / 2, most.count());
  std::this_thread::sleep_for(Micros{length(random_)});
  return true;
}

}  // namespace dblock::store::sqlite
