// A damaged file of the embedded store: an error or a right answer, and never a second holder. The file is
// made by the product when the target starts, so that it always has today's tables; the input says how it is
// damaged.
//
// What nobody can see: a row that is whole and lies. Where damage has made a lease of a held lock end sooner,
// or has freed it, the row says so, and so does this target's own reading of the file.
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "fuzz/fuzz.hpp"
#include "fuzz/workplace.hpp"
#include "store/open.hpp"
#include "store/sqlite/boot.hpp"

namespace dblock::fuzz {
namespace {

using namespace std::chrono_literals;

// The locks of the undamaged file, and one that it does not know.
constexpr std::string_view k_keys[] = {"held", "free", "slots", "readers", "paused", "new"};

std::string file_path() {
  return workplace() + "/locks.db";
}

SystemClock& system_clock() {
  static SystemClock clock;
  return clock;
}

lease::LeaseRequest request_of(std::string_view key, const std::string& owner) {
  lease::LeaseRequest request{*lease::Key::parse(key), {}, {owner}};
  request.terms = {1h, 3s, 15s};
  request.holder = {"host", 42, "user", "etl", "note"};
  if (key == "slots") request.sharing = {lease::Mode::slot, 2};
  if (key == "readers") request.sharing = {lease::Mode::shared, 1};
  return request;
}

std::unique_ptr<lease::LockBook> open_file() {
  return store::open_store(store::SqliteSettings{file_path()}, {.network_timeout = 1s}, system_clock());
}

// One statement over a connection of this target's own. Rows of text; nullopt where the file is too damaged
// for it.
using Rows = std::vector<std::vector<std::optional<std::string>>>;
std::optional<Rows> ask(const std::string& sql) {
  sqlite3* db = nullptr;
  Rows rows;
  const auto take = [](void* into, int columns, char** values, char**) {
    auto& row = static_cast<Rows*>(into)->emplace_back();
    for (int i = 0; i < columns; ++i)
      row.push_back(values[i] == nullptr ? std::nullopt : std::optional<std::string>(values[i]));
    return 0;
  };
  const bool opened = sqlite3_open(file_path().c_str(), &db) == SQLITE_OK;
  const bool answered = opened && sqlite3_exec(db, sql.c_str(), take, &rows, nullptr) == SQLITE_OK;
  sqlite3_close(db);
  return answered ? std::optional(rows) : std::nullopt;
}

void remove_side_files() {
  for (const char* const suffix : {"-wal", "-shm", "-seen", "-line"})
    std::remove((file_path() + suffix).c_str());
}

// The undamaged file's bytes.
const std::string& whole_file() {
  static const std::string bytes = [] {
    const auto store = open_file();
    for (const std::string key : {"held", "free", "slots", "readers"}) {
      const auto answer = store->try_acquire(request_of(key, "first-" + key));
      demand(answer && std::holds_alternative<lease::Granted>(*answer), "a new lock is granted", key);
    }
    const auto done =
        store->release({*lease::Key::parse("free"), {"first-free"}, {}}, lease::Actor::holder, {});
    demand(done && std::holds_alternative<lease::Released>(*done), "a lock is released");
    demand(store->pause({{"paused", true}, Micros{1h}, "op@desk", ""}).has_value(), "locks are paused");
    demand(store->stand_in_line(request_of("held", "waiter"), 1h, true).has_value(), "a request waits");
    store->disconnect();
    demand(ask("PRAGMA wal_checkpoint(TRUNCATE)").has_value(), "the log is written back");
    std::ifstream file(file_path(), std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }();
  return bytes;
}

// A value as SQL: nothing, a number, or text.
std::string value_in(Input& input) {
  const auto kind = input.byte() % 4;
  if (kind == 0) return "NULL";
  if (kind == 1)
    return std::to_string(static_cast<std::int64_t>(std::uint64_t{input.number()} << (input.byte() % 49U)));
  if (kind == 2) return std::to_string(static_cast<std::int8_t>(input.byte()));
  std::string hex;
  for (const char c : input.until('\n')) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<std::uint8_t>(c)));
    hex += digits;
  }
  return "CAST(x'" + hex + "' AS TEXT)";
}

void edit_rows(Input& input) {
  constexpr const char* k_columns[] = {
      "lock_key",         "slot",         "lock_value",  "boot_id",     "boot_offset_us",
      "create_time",      "update_time",  "expire_time", "token",       "version",
      "lock_count",       "kind",         "mode",        "slots",       "ttl_us",
      "margin_us",        "heartbeat_us", "hold_until",  "hold_us",     "keep_until",
      "revoke_time",      "replaceable",  "arrived_at",  "holder_host", "holder_note",
      "last_acquired_at", "last_outcome", "failures"};
  const std::string key(k_keys[input.byte() % std::size(k_keys)]);
  const std::string column = k_columns[input.byte() % std::size(k_columns)];
  (void)ask("PRAGMA ignore_check_constraints=1; UPDATE OR IGNORE dblock_lock SET " + column + "=" +
            value_in(input) + " WHERE lock_key='" + key + "'; PRAGMA wal_checkpoint(TRUNCATE)");
}

// Damage to the bytes, which comes after that to rows.
void edit_bytes(Input& input, std::string& bytes) {
  constexpr std::size_t k_page = 1024;
  const auto kind = input.byte() % 4;
  const std::size_t at = input.number() % bytes.size();
  if (kind == 0) {
    bytes[at] = static_cast<char>(input.byte());
  } else if (kind == 1) {
    const std::string put = input.until('\n').substr(0, bytes.size() - at);
    bytes.replace(at, put.size(), put);
  } else if (kind == 2) {
    bytes.resize(std::max<std::size_t>(at, 1));
  } else if (bytes.size() >= 2 * k_page) {
    const std::size_t from = at / k_page % (bytes.size() / k_page);
    const std::size_t to = input.byte() % (bytes.size() / k_page);
    if (from != to)
      std::swap_ranges(bytes.begin() + static_cast<long>(from * k_page),
                       bytes.begin() + static_cast<long>((from + 1) * k_page),
                       bytes.begin() + static_cast<long>(to * k_page));
  }
}

void damage(Input& input) {
  const unsigned rows = input.byte() % 4;
  remove_side_files();
  write_here("locks.db", whole_file());
  for (unsigned i = 0; i < rows; ++i) edit_rows(input);
  remove_side_files();
  std::ifstream file(file_path(), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const unsigned edits = input.byte() % 8;
  for (unsigned i = 0; i < edits && !bytes.empty(); ++i) edit_bytes(input, bytes);
  write_here("locks.db", bytes);
  if (const std::string log = input.rest(); !log.empty()) write_here("locks.db-wal", log);
}

// What the file itself says of an exclusive lock, before the product has seen it.
struct Said {
  bool held = false;
  std::int64_t token = 0;
};
Said said_of(std::string_view key) {
  const auto boot = store::sqlite::read_boot();
  demand(boot.has_value(), "the kernel tells its boot");
  const auto now = store::sqlite::clocks_now(system_clock(), *boot).boot.count();
  const auto rows =
      ask("SELECT lock_value IS NOT NULL AND boot_id='" + boot->id +
          "' AND (expire_time IS NULL OR expire_time+margin_us>boot_offset_us+" + std::to_string(now) +
          "+60000000),token FROM dblock_lock WHERE slot=0 AND lock_key='" + std::string(key) + "'");
  Said said;
  if (!rows) return said;
  for (const auto& row : *rows) {
    said.held = said.held || row[0] == "1";
    if (row[1])
      said.token =
          std::max(said.token, static_cast<std::int64_t>(std::strtoll(row[1]->c_str(), nullptr, 10)));
  }
  return said;
}

bool try_key(lease::LockBook& store, std::string_view key, const std::string& owner,
             lease::Token* token = nullptr) {
  const auto answer = store.try_acquire(request_of(key, owner));
  if (!answer) {
    demand(!answer.error().message.empty() && answer.error().code != Errc::internal,
           "a damaged file is no bug", answer.error().message);
    return false;
  }
  const auto* const granted = std::get_if<lease::Granted>(&*answer);
  if (granted != nullptr && token != nullptr) *token = granted->lease.token;
  return granted != nullptr;
}

bool check_key(lease::LockBook& store, std::string_view key, const Said& before) {
  lease::Token token;
  if (!try_key(store, key, "second", &token)) return false;
  demand(!before.held, "no lock is granted whose row says that it is held", key);
  demand(token.value > static_cast<std::uint64_t>(std::max<std::int64_t>(before.token, 0)), "tokens increase",
         key);
  demand(!try_key(store, key, "third"), "an exclusive lock has one holder", key);
  return true;
}

std::string_view run_sqlite(Input input) {
  damage(input);
  std::vector<Said> said;
  for (const std::string_view key : {"held", "free", "new"}) said.push_back(said_of(key));
  // Its reading may have mended the log.
  const auto store = open_file();
  const auto listed = store->list({.held_only = false, .with_pauses = true});
  if (!listed)
    demand(listed.error().code != Errc::internal, "a damaged file is no bug", listed.error().message);
  const bool held = check_key(*store, "held", said[0]);
  const bool free = check_key(*store, "free", said[1]);
  const bool fresh = check_key(*store, "new", said[2]);
  (void)try_key(*store, "slots", "second");
  (void)try_key(*store, "readers", "second");
  (void)try_key(*store, "paused", "second");
  (void)store->renew({*lease::Key::parse("held"), {"first-held"}, {}}, lease::Actor::holder, {});
  (void)store->reap({.dry_run = true, .forget_after = 24h});
  (void)store->history({});
  (void)store->release({*lease::Key::parse("held"), {"first-held"}, {}}, lease::Actor::holder, {});
  if (!listed && !held && !free && !fresh) return "refused";
  return held ? "freed" : free && fresh ? "granted" : "partly";
}

}  // namespace
}  // namespace dblock::fuzz

DBLOCK_FUZZ_TARGET(sqlite, dblock::fuzz::run_sqlite)
