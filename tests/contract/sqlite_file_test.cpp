// The embedded store's file: made by many at once, migrated by its users, shared without a busy answer.
#include <sqlite3.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "contract/sqlite_store.hpp"
#include "contract/store_fixture.hpp"
#include "store/sqlite/sql.hpp"
#include "support/catch.hpp"
#include "support/disk.hpp"

namespace dblock::contract {
namespace {

SystemClock the_clock;

Error refusal(const SqliteUnderTest& t) {
  const auto connected = t.open_with(the_clock)->connect();
  REQUIRE_FALSE(connected);
  return connected.error();
}

mode_t mode_of(const std::string& path) {
  struct stat seen {};
  REQUIRE(::stat(path.c_str(), &seen) == 0);
  return seen.st_mode & 07777U;
}

// What SQLite asks of the disk, in the order in which it asks.
struct DiskStep {
  enum class Kind { write, truncate, sync, remove };
  Kind kind;
  std::string file;  // "", "-wal" or "-journal", behind the store's path
  std::size_t at = 0;
  std::string bytes;
};

// Records the steps of all connections of this process to the store at `path`.
class DiskRecorder {
 public:
  explicit DiskRecorder(const std::string& path) {
    t_path = path;
    t_steps.clear();
    t_vfs = *usual();
    t_vfs.zName = "recorder";
    t_vfs.xOpen = [](sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
      const int code = usual()->xOpen(vfs, name, file, flags, out);
      if (code == SQLITE_OK && name != nullptr && is_ours(name)) watch(file, name);
      return code;
    };
    t_vfs.xDelete = [](sqlite3_vfs* vfs, const char* name, int sync) {
      const int code = usual()->xDelete(vfs, name, sync);
      if (code == SQLITE_OK && is_ours(name))
        t_steps.push_back({DiskStep::Kind::remove, name + t_path.size(), 0, {}});
      return code;
    };
    REQUIRE(::sqlite3_vfs_register(&t_vfs, 1) == SQLITE_OK);
  }
  ~DiskRecorder() {
    ::sqlite3_vfs_unregister(&t_vfs);
    ::sqlite3_vfs_register(usual(), 1);
  }
  DiskRecorder(const DiskRecorder&) = delete;
  DiskRecorder& operator=(const DiskRecorder&) = delete;

  [[nodiscard]] static const std::vector<DiskStep>& steps() { return t_steps; }

 private:
  static sqlite3_vfs* usual() {
    static sqlite3_vfs* const vfs = ::sqlite3_vfs_find("unix");
    return vfs;
  }
  static bool is_ours(std::string_view name) { return name.starts_with(t_path); }

  // Puts our functions before those of the file, of which there are two kinds: with locks and without.
  static void watch(sqlite3_file* file, const char* name) {
    const sqlite3_io_methods* const real = file->pMethods;
    t_files[file] = {name + t_path.size(), real};
    auto& ours = t_methods[real];
    ours = *real;
    ours.xWrite = [](sqlite3_file* f, const void* bytes, int size, sqlite3_int64 at) {
      record(f, DiskStep::Kind::write, at, {static_cast<const char*>(bytes), static_cast<std::size_t>(size)});
      return t_files.at(f).real->xWrite(f, bytes, size, at);
    };
    ours.xTruncate = [](sqlite3_file* f, sqlite3_int64 size) {
      record(f, DiskStep::Kind::truncate, size, {});
      return t_files.at(f).real->xTruncate(f, size);
    };
    ours.xSync = [](sqlite3_file* f, int flags) {
      record(f, DiskStep::Kind::sync, 0, {});
      return t_files.at(f).real->xSync(f, flags);
    };
    file->pMethods = &ours;
  }
  static void record(sqlite3_file* file, DiskStep::Kind kind, sqlite3_int64 at, std::string bytes) {
    t_steps.push_back({kind, t_files.at(file).name, static_cast<std::size_t>(at), std::move(bytes)});
  }

  struct File {
    std::string name;
    const sqlite3_io_methods* real = nullptr;
  };
  static inline std::string t_path;
  static inline std::vector<DiskStep> t_steps;
  static inline std::map<sqlite3_file*, File> t_files;
  static inline sqlite3_vfs t_vfs;
  static inline std::map<const sqlite3_io_methods*, sqlite3_io_methods> t_methods;
};

// The disk as the steps so far have left it: what was synced is there, the rest may be.
class Disk {
 public:
  void take(const DiskStep& step) {
    if (step.kind == DiskStep::Kind::remove) {
      files_.erase(step.file);
      return;
    }
    auto& file = files_[step.file];
    if (step.kind != DiskStep::Kind::sync) {
      file.unsynced.push_back(step);
      return;
    }
    for (const auto& each : file.unsynced) apply(each, file.synced, [] { return true; });
    file.unsynced.clear();
  }

  // What a power cut leaves now. `arrived` is asked for each sector that was not synced.
  template <typename Arrived>
  void write_to(const std::string& path, Arrived arrived) const {
    for (const auto& [name, file] : files_) {
      std::string content = file.synced;
      for (const auto& each : file.unsynced) apply(each, content, arrived);
      test::write_file(path + name, content, 0600);
    }
  }

 private:
  struct File {
    std::string synced;
    std::vector<DiskStep> unsynced;
  };

  template <typename Arrived>
  static void apply(const DiskStep& step, std::string& content, Arrived arrived) {
    if (step.kind == DiskStep::Kind::truncate) {
      if (arrived()) content.resize(step.at);
      return;
    }
    test::write_sectors(content, step.at, step.bytes, arrived);
  }

  std::map<std::string, File> files_;
};

// After the power cut the machine starts again, and the next job asks for the lock.
void check_after_power_cut(const Disk& disk, std::uint32_t draw, Token last) {
  SqliteUnderTest t;
  std::mt19937 random(draw);
  disk.write_to(t.path(), [&] { return draw % 3 == 0 || (draw % 3 == 1 && random() % 2 == 0); });
  const auto connected = t.open()->connect();
  if (!connected) FAIL(connected.error().message);
  CHECK(t.value("PRAGMA integrity_check") == "ok");
  t.reboot("k");
  const auto outcome = t.open()->try_acquire(asks("k", "next"));
  if (!outcome) FAIL(outcome.error().message);
  REQUIRE(std::holds_alternative<Granted>(*outcome));
  CHECK(std::get<Granted>(*outcome).lease.token > last);
}

}  // namespace

TEST_CASE("sqlite: a power cut at any write leaves a sound store, no lease, and tokens that go on rising") {
  SqliteUnderTest t;
  std::vector<DiskStep> steps;
  std::map<std::size_t, Token> granted;  // after so many steps
  {
    const DiskRecorder recorder(t.path());
    for (int i = 0; i < 60; ++i) {  // the log is written back and emptied twice
      const auto store = t.open();
      const auto lease = std::get<Granted>(acquire(*store, asks("k", "owner-" + std::to_string(i)))).lease;
      granted.emplace(recorder.steps().size(), lease.token);
      if (i % 2 == 0) REQUIRE(store->release({lease.key, lease.owner, lease.token}, Actor::holder, {}));
      if (i % 2 == 1) t.reboot("k");
      store->disconnect();
    }
    steps = recorder.steps();
  }
  REQUIRE(std::ranges::count(steps, DiskStep::Kind::truncate, &DiskStep::kind) >= 2);
  Disk disk;
  Token last{};
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    disk.take(steps[i]);
    if (granted.contains(i + 1)) last = granted.at(i + 1);
    check_after_power_cut(disk, i, last);
  }
}

TEST_CASE("sqlite: the first use makes the store, for its owner alone") {
  SqliteUnderTest t;
  REQUIRE(t.open()->connect());
  CHECK(mode_of(t.path()) == 0600);
  CHECK(mode_of(t.path() + "-wal") == 0600);
  CHECK(t.value("PRAGMA journal_mode") == "wal");
  CHECK(t.value("PRAGMA user_version") == std::to_string(store::sqlite::schema_version()));
}

TEST_CASE("sqlite: migrating says what it applied, and nothing the second time") {
  SqliteUnderTest t;
  const auto first = t.admin()->apply();
  REQUIRE(first);
  CHECK(first->migrations.size() == store::sqlite::migrations().size());
  const auto again = t.admin()->apply();
  REQUIRE(again);
  CHECK(again->migrations.empty());
  const auto states = t.admin()->status();
  REQUIRE(states);
  for (const auto& state : *states) CHECK(state.applied_at);
}

TEST_CASE("sqlite: a store of an older dblock gets the columns that it lacks, and keeps its leases") {
  SqliteUnderTest t;
  REQUIRE(t.open()->try_acquire(asks("k", "owner-1")));
  for (const std::string column : {"failures", "job_ended_at", "job_ended_token", "last_attempts"})
    t.sql("ALTER TABLE dblock_lock DROP COLUMN " + column);
  t.sql("DELETE FROM dblock_schema WHERE version>1");
  t.sql("PRAGMA user_version=1");
  const auto store = t.open();
  const auto released = store->release({key("k"), {"owner-1"}, {}}, Actor::holder, {RunOutcome::failed, 1});
  REQUIRE(released);
  CHECK(std::holds_alternative<Released>(*released));
  CHECK(t.value("SELECT failures FROM dblock_lock") == "1");
  CHECK(t.value("PRAGMA user_version") == std::to_string(store::sqlite::schema_version()));
}

TEST_CASE("sqlite: looking at the schema's version applies nothing") {
  SqliteUnderTest t;
  const auto states = t.admin()->status();
  REQUIRE(states);
  REQUIRE_FALSE(states->empty());
  for (const auto& state : *states) CHECK_FALSE(state.applied_at);
  CHECK(t.value("SELECT count(*) FROM sqlite_schema") == "0");
}

TEST_CASE("sqlite: many connections that make the store at once make one", "[safety]") {
  for (int round = 0; round < 5; ++round) {
    SqliteUnderTest t;
    constexpr int k_many = 12;
    std::atomic<int> ready{0}, granted{0}, errors{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < k_many; ++i) {
      threads.emplace_back([&, i] {
        const auto store = t.open_with(the_clock);
        ++ready;
        while (ready < k_many) std::this_thread::yield();
        const auto outcome = store->try_acquire(asks("k", "owner-" + std::to_string(i)));
        if (!outcome) {
          ++errors;
        } else if (std::holds_alternative<Granted>(*outcome)) {
          ++granted;
        }
      });
    }
    threads.clear();
    CHECK(errors == 0);
    CHECK(granted == 1);
    CHECK(t.value("SELECT count(*) FROM dblock_schema") ==
          std::to_string(store::sqlite::migrations().size()));
  }
}

TEST_CASE("sqlite: a store of a newer dblock that serves this one is used, and left as it is") {
  SqliteUnderTest t;
  const auto store = t.open();
  REQUIRE(store->try_acquire(asks("k", "owner-1")));
  const std::string ours = std::to_string(store::sqlite::schema_version());
  t.sql("ALTER TABLE dblock_lock ADD COLUMN later INT");
  t.sql("INSERT INTO dblock_schema VALUES (999," + ours + ",'by_a_test.sql',0)");
  t.sql("PRAGMA user_version=999");
  REQUIRE(store->release({key("k"), {"owner-1"}, {}}, Actor::holder, {}));
  const auto applied = t.admin()->apply();
  REQUIRE(applied);
  CHECK(applied->migrations.empty());
  const auto outcome = t.open()->try_acquire(asks("k", "owner-2"));
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Granted>(*outcome));
  CHECK(t.value("PRAGMA user_version") == "999");
}

TEST_CASE("sqlite: a store of a newer dblock is refused and left alone") {
  SqliteUnderTest t;
  REQUIRE(t.open()->connect());
  t.sql("PRAGMA user_version=999");
  const Error error = refusal(t);
  CHECK(error.code == Errc::schema);
  CHECK(error.message.find("999") != std::string::npos);
  CHECK(error.message.find("upgrade dblock") != std::string::npos);
  const auto applied = t.admin()->apply();
  REQUIRE_FALSE(applied);
  CHECK(applied.error().code == Errc::schema);
  CHECK(t.value("PRAGMA user_version") == "999");
}

TEST_CASE("sqlite: another program's database is refused and left alone") {
  SqliteUnderTest t;
  test::write_file(t.path(), "", 0600);
  t.sql("CREATE TABLE theirs (a)");
  const Error error = refusal(t);
  CHECK(error.code == Errc::config);
  CHECK(error.message.find("another program") != std::string::npos);
  CHECK(t.value("SELECT group_concat(name) FROM sqlite_schema") == "theirs");
  CHECK(t.value("PRAGMA journal_mode") != "wal");
}

TEST_CASE("sqlite: what is no database, and what was one, is refused and left as it is", "[safety]") {
  SqliteUnderTest t;
  const bool was_store = GENERATE(false, true);
  if (was_store) {
    auto store = t.open();
    REQUIRE(store->try_acquire(asks("k", "owner")));
    store.reset();
    t.sql("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  const std::string garbage(8192, 'x');
  test::write_file(t.path(), garbage, 0600);
  const Error error = refusal(t);
  CHECK(error.code == Errc::config);
  CHECK(error.message.find("left as it is") != std::string::npos);
  CHECK(test::read_file(t.path()) == garbage);
}

TEST_CASE("sqlite: a store that was emptied while in use is not taken for a new one", "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  REQUIRE(store->try_acquire(asks("k", "owner")));
  std::filesystem::resize_file(t.path(), 0);
  const Error error = refusal(t);
  CHECK(error.code == Errc::config);
  CHECK(error.message.find("truncated") != std::string::npos);
}

TEST_CASE("sqlite: a store whose file was removed is not made anew beside its log", "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  REQUIRE(store->try_acquire(asks("k", "owner")));
  std::filesystem::remove(t.path());
  const Error error = refusal(t);
  CHECK(error.code == Errc::config);
  CHECK(error.message.find("removed the store") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(t.path()));
}

TEST_CASE("sqlite: a store whose log is gone, damaged or cut is refused, and one put back is not",
          "[safety]") {
  SqliteUnderTest t;
  const auto log = t.path() + "-wal";
  const auto copy = t.path() + ".copy";
  {
    auto store = t.open();
    REQUIRE(store->try_acquire(asks("k", "owner")));
  }
  std::filesystem::copy_file(log, copy);
  const auto damage = GENERATE(as<std::string>{}, "removed", "one byte", "header", "cut");
  CAPTURE(damage);
  std::string bytes = test::read_file(log);
  if (damage == "one byte") bytes[32 + 24 + 100] ^= 1;
  if (damage == "header") bytes[16] ^= 1;
  if (damage == "cut") bytes.resize(bytes.size() - 1000);
  std::filesystem::remove(log);
  if (damage != "removed") test::write_file(log, bytes, 0600);
  const Error error = refusal(t);
  CHECK(error.code == Errc::config);
  CHECK(error.message.find("changes made since this machine was started are missing") != std::string::npos);
  std::filesystem::remove(log);
  std::filesystem::copy_file(copy, log);
  const auto outcome = t.open()->try_acquire(asks("k", "other"));
  REQUIRE(outcome);
  CHECK(std::holds_alternative<Held>(*outcome));
}

TEST_CASE("sqlite: what was seen of a store in an earlier boot does not count") {
  SqliteUnderTest t;
  REQUIRE(t.open()->try_acquire(asks("k", "owner")));
  std::string seen = test::read_file(t.path() + "-seen");
  REQUIRE(seen.size() == 64);
  seen[8] ^= 1;  // the boot's id
  seen[1] = 77;  // many more changes
  test::write_file(t.path() + "-seen", seen, 0600);
  CHECK(t.open()->connect());
}

TEST_CASE("sqlite: a connection whose log or index was replaced opens the store anew", "[safety]") {
  SqliteUnderTest t;
  auto holder = t.open();
  const auto outcome = holder->try_acquire(asks("k", "owner"));
  REQUIRE(outcome);
  const Lease lease = std::get<Granted>(*outcome).lease;
  std::filesystem::remove(t.path() + "-shm");
  REQUIRE(t.open()->try_acquire(asks("other", "owner-2")));
  for (int i = 0; i < 3; ++i) {
    const auto renewed = holder->renew({lease.key, lease.owner, lease.token}, Actor::holder, std::nullopt);
    REQUIRE(renewed);
    CHECK(std::holds_alternative<Renewed>(*renewed));
    REQUIRE(t.open()->try_acquire(asks("other-" + std::to_string(i), "owner-2")));
  }
  CHECK(t.value("PRAGMA integrity_check") == "ok");
}

TEST_CASE("sqlite: the tables of a new store are in the file, not in its log alone") {
  SqliteUnderTest t;
  REQUIRE(t.open()->connect());
  CHECK(std::filesystem::file_size(t.path()) > 1024);
}

// The lease runs out while the renewal waits for another process's change to end.
TEST_CASE("sqlite: a renewal that had to wait goes by the time when it was done", "[safety]") {
  SqliteUnderTest t;
  auto store = t.open();
  auto request = asks("k", "owner");
  request.kind = Kind::acquire;
  request.terms = {1s, 1s, std::nullopt};
  const auto outcome = store->try_acquire(request);
  REQUIRE(outcome);
  const Lease lease = std::get<Granted>(*outcome).lease;
  auto writer = std::make_unique<test::SqliteWriter>(t.path());
  std::optional<Result<RenewOutcome>> renewed;
  std::jthread renewing([&] { renewed = store->renew({lease.key, lease.owner, {}}, Actor::script, 1h); });
  while (BootClock::now() < lease.sent_at + 1100ms) std::this_thread::sleep_for(10ms);
  writer.reset();
  renewing.join();
  REQUIRE(renewed->has_value());
  REQUIRE(std::holds_alternative<NotOurs>(**renewed));
  CHECK(std::get<NotOurs>(**renewed).why == NotOursWhy::expired);
}

TEST_CASE("sqlite: a holder whose store was removed and made anew is told that its lease is gone",
          "[safety]") {
  SqliteUnderTest t;
  auto holder = t.open();
  const auto outcome = holder->try_acquire(asks("k", "owner"));
  REQUIRE(outcome);
  const Lease lease = std::get<Granted>(*outcome).lease;
  for (const auto* const part : {"", "-wal", "-shm", "-seen"}) std::filesystem::remove(t.path() + part);
  REQUIRE(t.open()->connect());
  const auto renewed = holder->renew({lease.key, lease.owner, lease.token}, Actor::holder, std::nullopt);
  REQUIRE(renewed);
  REQUIRE(std::holds_alternative<NotOurs>(*renewed));
  CHECK(std::get<NotOurs>(*renewed).why == NotOursWhy::absent);
}

TEST_CASE("sqlite: links and other kinds of file are refused by name", "[safety]") {
  SqliteUnderTest t;
  SECTION("symbolic link") {
    std::filesystem::create_symlink(t.path() + ".real", t.path());
    CHECK(refusal(t).message.find("symbolic link") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(t.path() + ".real"));
  }
  SECTION("hard link") {
    REQUIRE(t.open()->connect());
    std::filesystem::create_hard_link(t.path(), t.path() + ".other");
    CHECK(refusal(t).message.find("hard links") != std::string::npos);
  }
  SECTION("directory") {
    std::filesystem::create_directory(t.path());
    CHECK(refusal(t).message.find("is a directory") != std::string::npos);
  }
  SECTION("pipe") {
    REQUIRE(::mkfifo(t.path().c_str(), 0600) == 0);
    CHECK(refusal(t).message.find("not a regular file") != std::string::npos);
  }
  SECTION("directory that everyone may write") {
    const auto open_to_all = std::filesystem::path(t.path()).parent_path();
    std::filesystem::permissions(open_to_all, std::filesystem::perms::all);
    CHECK(refusal(t).message.find("other users may write") != std::string::npos);
  }
}

// A call that waits for the store asks before each try how late it is.
class AskedClock final : public Clock {
 public:
  [[nodiscard]] BootTime now() const override {
    ++asked_;
    return BootClock::now() + shift_.load();
  }
  bool wait_until(BootTime when, const WakeEvent& wake) override { return the_clock.wait_until(when, wake); }
  void shift(Nanos by) { shift_ = by; }
  [[nodiscard]] bool soon_asked_often() const {
    return test::wait_until([this, before = asked_.load()] { return asked_ > before + 20; });
  }

 private:
  mutable std::atomic<int> asked_{0};
  std::atomic<Nanos> shift_{Nanos{0}};
};

TEST_CASE("sqlite: another process in the middle of a change is waited out") {
  SqliteUnderTest t;
  REQUIRE(t.open()->connect());
  auto writer = std::make_unique<test::SqliteWriter>(t.path());
  std::atomic<bool> answered{false}, granted{false};
  AskedClock clock;
  std::jthread waiting([&] {
    granted = t.open_with(clock)->try_acquire(asks("k", "owner")).has_value();
    answered = true;
  });
  CHECK(clock.soon_asked_often());
  CHECK_FALSE(answered);
  writer.reset();
  waiting.join();
  CHECK(granted);
}

TEST_CASE("sqlite: a store that stays taken is given up in time, as unreachable and with nothing done",
          "[safety]") {
  SqliteUnderTest t;
  REQUIRE(t.open()->connect());
  const test::SqliteWriter writer(t.path());
  AskedClock clock;
  std::atomic<bool> answered{false};
  std::optional<Result<Answer>> outcome;
  std::jthread waiting([&] {
    outcome = t.open_with(clock, 1h)->try_acquire(asks("k", "owner"));
    answered = true;
  });
  CHECK(clock.soon_asked_often());
  clock.shift(59min);
  CHECK(clock.soon_asked_often());
  CHECK_FALSE(answered);
  clock.shift(61min);
  waiting.join();
  REQUIRE_FALSE(outcome->has_value());
  CHECK(outcome->error().code == Errc::unreachable);
  CHECK(outcome->error().message.find("other processes") != std::string::npos);
}

TEST_CASE("sqlite: interrupt() ends a call that waits for the store") {
  SqliteUnderTest t;
  const auto store = t.open_with(the_clock, 1h);
  REQUIRE(store->connect());
  const test::SqliteWriter writer(t.path());
  std::atomic<bool> ended{false}, granted{false};
  std::jthread waiting([&] {
    granted = store->try_acquire(asks("k", "owner")).has_value();
    ended = true;
  });
  CHECK(test::wait_until([&] {
    store->interrupt();  // again and again: the call may not have begun yet
    return ended.load();
  }));
  waiting.join();
  CHECK_FALSE(granted);
}

TEST_CASE("sqlite: the log is emptied by a closing connection once it has grown") {
  SqliteUnderTest t;
  const auto log_size = [&t] { return std::filesystem::file_size(t.path() + "-wal"); };
  for (int i = 0; i < 200; ++i) {
    const auto store = t.open();
    const auto outcome = store->try_acquire(asks("k", "owner-" + std::to_string(i)));
    REQUIRE(outcome);
    const Lease lease = std::get<Granted>(*outcome).lease;
    REQUIRE(store->release({lease.key, lease.owner, lease.token}, Actor::holder, {}));
    store->disconnect();
    REQUIRE(log_size() < 1'000'000);
  }
}

TEST_CASE("sqlite: a holder renews and releases its own row without a look at the others of its key") {
  SqliteUnderTest t;
  REQUIRE(t.open()->connect());
  for (const auto sql : {store::sqlite::sql(store::Verb::renew), store::sqlite::sql(store::Verb::release)}) {
    const auto plan = t.sql("EXPLAIN QUERY PLAN " + std::string(sql));
    REQUIRE_FALSE(plan.empty());
    const std::string detail = plan.front().back();
    CAPTURE(detail);
    CHECK(detail.find("(lock_key=? AND slot>? AND slot<?)") != std::string::npos);
  }
}

}  // namespace dblock::contract
