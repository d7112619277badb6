#include "store/sqlite/connection.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "store/sqlite/file.hpp"
#include "store/sqlite/schema.hpp"
#include "store/sqlite/sql.hpp"

namespace dblock::store::sqlite {
namespace {

using namespace std::chrono_literals;

// If the write-ahead log has this many frames (one changed page each), a closing connection writes them back.
// The first connection that opens a store reads the whole log, about 0.6 us a KiB; writing back syncs the
// disk twice, tens of milliseconds. A run leaves four frames of 1 KiB.
constexpr int k_frames_emptied_on_close = 150;
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

Connection::Call::Call(Connection& connection, Attempt attempt) : connection_(connection) {
  connection_.attempt_ = std::move(attempt);
  connection_.give_up_at_ = connection_.clock_.now() + connection_.options_.network_timeout;
  const std::lock_guard lock(connection_.mutex_);
  assert(!connection_.in_call_);
  connection_.in_call_ = true;
  connection_.interrupted_ = false;
}

Connection::Call::~Call() {
  const std::lock_guard lock(connection_.mutex_);
  connection_.in_call_ = false;
}

void Connection::interrupt() noexcept {
  const std::lock_guard lock(mutex_);
  if (!in_call_) return;
  interrupted_ = true;
  if (handle_) ::sqlite3_interrupt(handle_.get());
}

Result<void> Connection::ensure_open() {
  // If one of the store's files was removed or replaced, other processes use another store by now, and our
  // view of the old one is worthless.
  if (handle_ && files_moved()) close_handle();
  if (handle_) return {};
  auto opened = open();
  if (!opened) close();
  return opened;
}

Result<void> Connection::open() {
  DBLOCK_TRY(boot_, read_boot());
  DBLOCK_TRY(const auto path, prepare_file(settings_, attempt_));
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
  if (code != SQLITE_OK) return std::unexpected(failure(code, Phase::read));
  DBLOCK_CHECK(configure());
  if (check_ == SchemaCheck::on) DBLOCK_CHECK(ensure_schema(*this));
  side_files_ = side_files();
  settings_.makes_directory = true;  // the path proved right: if the store is removed, make an empty new one
  return {};
}

// Reads the witness first, so that all changes it has seen are committed when the store is read.
Result<std::uint64_t> Connection::read_changes() {
  const auto seen = witness_.changes_seen();
  DBLOCK_TRY(const auto rows, run(sql(Verb::count_changes), {}, Phase::read));
  const auto present = rows.empty() ? 0 : unsigned_number(rows.front()[0]);
  if (seen > present) return lost_changes();
  return present;
}

Result<void> Connection::configure() {
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
  if (::sqlite3_db_readonly(db, "main") == 1) return std::unexpected(failure(SQLITE_READONLY, Phase::read));
  return run_script("PRAGMA synchronous=NORMAL");
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

std::int64_t Connection::changes_so_far() const {
  return ::sqlite3_total_changes64(handle_.get());
}

Result<void> Connection::commit(std::int64_t before) {
  if (changes_so_far() == before) {
    roll_back();
    return {};
  }
  // The transaction excludes other writers between this read and the update.
  DBLOCK_TRY(auto changes, read_changes());
  ++changes;
  DBLOCK_CHECK(run(sql(Verb::record_changes), {{"changes", Scalar(std::uint64_t{changes})}}, Phase::write));
  DBLOCK_CHECK(run("COMMIT", {}, Phase::write));
  witness_.note(changes);
  return {};
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
  ::sqlite3_exec(handle_.get(), std::string(sql(Verb::touch)).c_str(), nullptr, nullptr, nullptr);
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
  if (handle_ && log_frames_ >= k_frames_emptied_on_close && !files_moved()) empty_log();
  close_handle();
}

void Connection::close_handle() noexcept {
  statements_.clear();
  const std::lock_guard lock(mutex_);
  handle_.reset();
}

std::string Connection::where() const {
  return escape_untrusted(settings_.display());
}

std::unexpected<Error> Connection::lost_changes() const {
  return refuse(Errc::config,
                "changes made since this machine was started are missing in the file: its -wal file "
                "was removed or damaged, or it is an older copy, so who holds what is lost. If no job "
                "runs under its locks, remove it and all files beside it (-wal, -shm, -seen, -line), "
                "and dblock makes a new one");
}

std::unexpected<Error> Connection::refuse(Errc code, const std::string& why) const {
  return fail(code, attempt_.text() + " in " + where() + ": " + why);
}

Result<void> Connection::check_unused() {
  if (witness_.changes_seen() != 0) return lost_changes();
  return {};
}

Error Connection::failure(int code, Phase phase) {
  const std::lock_guard lock(mutex_);
  if (interrupted_ && is_busy(code)) code = SQLITE_INTERRUPT;
  return make_error(attempt_.text(), where(), handle_.get(), code, phase);
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
