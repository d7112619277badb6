#include "contract/sqlite_store.hpp"

#include <sys/stat.h>

#include "store/sqlite/boot.hpp"

namespace dblock::contract {
namespace {

std::string is(const std::string& key) {
  std::string quoted;
  for (const char c : key) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return " WHERE lock_key='" + quoted + "'";
}

// Every time a row has, as much earlier.
std::string earlier(Micros by) {
  const std::string length = std::to_string(by.count());
  std::string set;
  for (const std::string column :
       {"create_time", "update_time", "expire_time", "hold_until", "keep_until", "revoke_time",
        "last_acquired_at", "last_released_at", "success_acquired_at", "success_released_at", "arrived_at"}) {
    set += (set.empty() ? "" : ",") + column + "=" + column + "-(" + length + ")";
  }
  return set;
}

std::string at(std::optional<Micros> from_now) {
  return from_now ? std::to_string((store::sqlite::wall_now() + *from_now).count()) : "NULL";
}

}  // namespace

std::unique_ptr<lease::LockBook> SqliteUnderTest::open_with(Clock& clock,
                                                            std::chrono::seconds network_timeout) const {
  store::SessionOptions options;
  options.network_timeout = network_timeout;
  return store::open_store(store::SqliteSettings{path()}, options, clock);
}

std::unique_ptr<store::SchemaAdmin> SqliteUnderTest::admin() const {
  return store::open_schema(store::SqliteSettings{path()}, {});
}

void SqliteUnderTest::age(const std::string& key, Micros by, bool with_token) {
  const std::string length = "-(" + std::to_string(by.count()) + ")";
  const std::string set = earlier(by) + (with_token ? ",token=token" + length : "");
  sql("UPDATE dblock_lock SET " + set + is(key));
}

void SqliteUnderTest::age_hold(const std::string& key, std::uint32_t slot, Micros by) {
  sql("UPDATE dblock_lock SET " + earlier(by) + is(key) + " AND slot=" + std::to_string(slot));
}

void SqliteUnderTest::set_promise(const std::string& key, Promise which, Micros from_now) {
  const std::string column = which == Promise::hold_until ? "hold_until" : "keep_until";
  sql("UPDATE dblock_lock SET " + column + "=" + at(from_now) + is(key) + " AND slot=0");
}

void SqliteUnderTest::age_pauses(Micros by) {
  const std::string length = std::to_string(by.count());
  sql("UPDATE dblock_pause SET create_time=create_time-" + length + ",end_time=end_time-" + length);
}

void SqliteUnderTest::delete_row(const std::string& key) {
  sql("DELETE FROM dblock_lock" + is(key));
}

void SqliteUnderTest::add_rows(const std::vector<RowState>& rows) {
  const auto boot = store::sqlite::read_boot();
  if (!boot) throw std::runtime_error(boot.error().message);
  const std::string offset = std::to_string(store::sqlite::clocks_now(clock_, *boot).offset().count());
  std::string values;
  for (const auto& row : rows)
    values += (values.empty() ? "(" : ",(") + row_values(row, at) + ",'" + boot->id + "'," + offset + ")";
  sql("INSERT INTO dblock_lock (" + std::string(k_row_columns) + ",boot_id,boot_offset_us) VALUES " + values);
}

void SqliteUnderTest::set_pause(const std::string& prefix, std::optional<Micros> ends) {
  sql("DELETE FROM dblock_pause");
  if (ends)
    sql("INSERT INTO dblock_pause VALUES ('" + prefix + "',1," + at(*ends - std::chrono::hours(1)) + "," +
        at(ends) + ",'op@desk','')");
}

void SqliteUnderTest::keep_history(bool on) {
  if (const auto applied = admin()->apply(); !applied) throw std::runtime_error(applied.error().message);
  if (const auto done = admin()->keep_history(on); !done) throw std::runtime_error(done.error().message);
}

void SqliteUnderTest::age_history(Micros by) {
  sql("UPDATE dblock_history SET recorded_at=recorded_at-(" + std::to_string(by.count()) + ")");
}

void SqliteUnderTest::copy_history(int times) {
  sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<" + std::to_string(times) +
      ") INSERT INTO dblock_history SELECT lock_key,recorded_at-1000000*i,token,lock_value,kind,mode,"
      "holder_host,holder_pid,holder_user,holder_command,holder_note,acquired_at,released_at,outcome,"
      "exit_code,attempts FROM dblock_history,n");
}

void SqliteUnderTest::reboot(const std::string& key) const {
  sql("UPDATE dblock_lock SET boot_id='00000000-0000-4000-8000-000000000000',boot_offset_us=0" + is(key));
}

std::unique_ptr<StoreUnderTest> make_store_under_test() {
  return std::make_unique<SqliteUnderTest>();
}

}  // namespace dblock::contract
