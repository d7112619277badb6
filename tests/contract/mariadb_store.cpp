#include "contract/mariadb_store.hpp"
#include "store/sql_grant.hpp"
#include "support/catch.hpp"

#include <stdexcept>
#include <utility>

namespace dblock::contract {
namespace {

using namespace std::chrono_literals;

SystemClock the_clock;

std::string shifted(const std::string& column, Micros by) {
  return column + "=" + column + "-INTERVAL " + std::to_string(by.count()) + " MICROSECOND";
}

// Every time that a row has, as much earlier.
std::string earlier(Micros by) {
  std::string set;
  for (const auto* const column :
       {"create_time", "update_time", "expire_time", "hold_until", "keep_until", "revoke_time",
        "last_acquired_at", "last_released_at", "success_acquired_at", "success_released_at", "arrived_at"}) {
    set += (set.empty() ? "" : ",") + shifted(column, by);
  }
  return set;
}

std::string at(std::optional<Micros> from_now) {
  if (!from_now) return "NULL";
  return "UTC_TIMESTAMP(6)+INTERVAL " + std::to_string(from_now->count()) + " MICROSECOND";
}

}  // namespace

store::Settings settings_of(const std::string& url) {
  store::SettingsSources sources;
  sources.url = url;
  sources.defaults_file = "/dev/null";
  auto resolved = store::resolve_settings(sources);
  if (!resolved) throw std::runtime_error(resolved.error().message);
  return resolved->settings;
}

lease::LeaseRequest request_for(const std::string& key, const std::string& owner, lease::Sharing sharing) {
  lease::LeaseRequest request{*lease::Key::parse(key),       {}, {owner}, lease::Kind::run, {60s, 1s, 10s},
                              {"host", 1, "user", "job", ""}};
  request.sharing = sharing;
  return request;
}

MariadbUnderTest::MariadbUnderTest(const test::ServerAddress& server, bool migrated)
    : database_(server, test::Database::Schema::none) {
  if (!migrated) return;
  const auto applied = admin()->apply();
  if (!applied) throw std::runtime_error(applied.error().message);
  // From here on every case is also a test that the printed grants are enough.
  database_.sql("REVOKE ALL ON " + database_.name() + ".* FROM app@'%'");
  const auto grants = store::grants_for("app@%", database_.name());
  if (!grants) throw std::runtime_error(grants.error().message);
  for (const auto& grant : *grants) database_.sql(grant);
}

std::unique_ptr<lease::LockBook> MariadbUnderTest::open_at(const std::string& url,
                                                           std::chrono::seconds network_timeout) {
  store::SessionOptions options;
  options.network_timeout = network_timeout;
  return store::open_store(settings_of(url), options, the_clock);
}

std::unique_ptr<store::Database> MariadbUnderTest::open_database() {
  return store::open_database(settings_of(database_.url()), {}, the_clock);
}

std::unique_ptr<store::SchemaAdmin> MariadbUnderTest::admin() const {
  return store::open_schema(settings_of(database_.owner_url()), {});
}

std::string MariadbUnderTest::where(const std::string& key) const {
  return " WHERE lock_key=" + test::sql_hex(key);
}

long long MariadbUnderTest::lock_waits() {
  return database_.number("SELECT variable_value FROM " + test::status_table() +
                          " WHERE variable_name='Innodb_row_lock_waits'");
}

long long MariadbUnderTest::connected() {
  return database_.number("SELECT variable_value FROM " + test::status_table() +
                          " WHERE variable_name='Threads_connected'");
}

void MariadbUnderTest::fill(std::vector<test::Connection>& others, long long count,
                            const std::function<long long()>& in_use, const std::string& user) {
  while (in_use() < count) {
    others.emplace_back(database_.server(), user, database_.name());
    others.back().sql("DO 1");
  }
}

long long MariadbUnderTest::asleep() {
  return database_.number(
      "SELECT COUNT(*) FROM information_schema.processlist WHERE state='User lock' AND "
      "info LIKE 'WITH RECURSIVE room%' AND db='" +
      database_.name() + "'");
}

void MariadbUnderTest::age(const std::string& key, Micros by, bool with_token) {
  std::string set = earlier(by);
  if (with_token) set += ",token=token-(" + std::to_string(by.count()) + ")";
  database_.sql("UPDATE dblock_lock SET " + set + where(key));
  if (with_token)
    database_.sql("UPDATE dblock_fence SET token=token-LEAST(token," + std::to_string(by.count()) + ")" +
                  where(key));
}

void MariadbUnderTest::age_hold(const std::string& key, std::uint32_t slot, Micros by) {
  database_.sql("UPDATE dblock_lock SET " + earlier(by) + where(key) + " AND slot=" + std::to_string(slot));
}

void MariadbUnderTest::set_promise(const std::string& key, Promise which, Micros from_now) {
  const std::string column = which == Promise::hold_until ? "hold_until" : "keep_until";
  database_.sql("UPDATE dblock_lock SET " + column + "=UTC_TIMESTAMP(6)+INTERVAL " +
                std::to_string(from_now.count()) + " MICROSECOND" + where(key) + " AND slot=0");
}

void MariadbUnderTest::age_pauses(Micros by) {
  database_.sql("UPDATE dblock_pause SET " + shifted("create_time", by) + "," + shifted("end_time", by));
  database_.sql("UPDATE dblock_lock SET " + shifted("paused_until", by));
}

void MariadbUnderTest::delete_row(const std::string& key) {
  database_.sql("DELETE FROM dblock_lock" + where(key));
}

void MariadbUnderTest::add_rows(const std::vector<RowState>& rows) {
  std::string locks, fences;
  for (const auto& row : rows) {
    const std::string comma = locks.empty() ? "" : ",";
    locks += comma + "(" + row_values(row, at) + "," + at(row.paused_until) + ")";
    fences += comma + "('" + row.key + "'," + std::to_string(row.slot) + ",0)";
  }
  database_.sql("INSERT INTO dblock_lock (" + std::string(k_row_columns) + ",paused_until) VALUES " + locks);
  database_.sql("INSERT INTO dblock_fence (lock_key,slot,token) VALUES " + fences);
}

void MariadbUnderTest::set_pause(const std::string& prefix, std::optional<Micros> ends) {
  database_.sql("DELETE FROM dblock_pause");
  if (ends)
    database_.sql("INSERT INTO dblock_pause VALUES ('" + prefix + "',1," + at(*ends - 1h) + "," + at(*ends) +
                  ",'op@desk','')");
}

void MariadbUnderTest::keep_history(bool on) {
  if (const auto done = admin()->keep_history(on); !done) throw std::runtime_error(done.error().message);
  const auto grants = store::grants_for("app@%", database_.name(), true);
  if (!grants) throw std::runtime_error(grants.error().message);
  for (const auto& grant : *grants) database_.sql(grant);
}

void MariadbUnderTest::age_history(Micros by) {
  database_.sql("UPDATE dblock_history SET recorded_at=recorded_at-INTERVAL " + std::to_string(by.count()) +
                " MICROSECOND");
}

void MariadbUnderTest::copy_history(int times) {
  database_.sql(
      "INSERT INTO dblock_history SELECT lock_key,recorded_at-INTERVAL seq SECOND,token,lock_value,kind,mode,"
      "holder_host,holder_pid,holder_user,holder_command,holder_note,acquired_at,released_at,outcome,"
      "exit_code,attempts FROM dblock_history," +
      test::numbers(1, times));
}

HoldingRun::HoldingRun(const std::string& url, const lease::LeaseRequest& request)
    : store_(MariadbUnderTest::open_at(url)), lease_(take(*store_, request)) {
  store_->hold(lease::LeaseStore::RenewedBy::this_store);
}

lease::Lease HoldingRun::take(lease::LockBook& store, const lease::LeaseRequest& request) {
  store.wake_up()->announce(request.owner);
  auto taken = store.try_acquire(request);
  if (!taken) throw std::runtime_error(taken.error().message);
  return std::get<lease::Granted>(std::move(*taken)).lease;
}

void HoldingRun::end() {
  const auto released = store_->release(ref_to(lease_), lease::Actor::holder, {});
  if (!released) throw std::runtime_error(released.error().message);
  store_->wake_up()->leave();
}

WaitingRun::WaitingRun(std::string url, lease::LeaseRequest request, Job job)
    : thread_([this, url = std::move(url), request = std::move(request), job = std::move(job)] {
        run(url, request, job);
        ended_ = true;
      }) {}

void WaitingRun::run(const std::string& url, const lease::LeaseRequest& request, const Job& job) {
  SystemClock clock;
  const auto store = MariadbUnderTest::open_at(url);
  lease::AcquireObserver observer;
  observer.on_wait = [this](const lease::LockStatus& holder) {
    if (holder.position) place_ = holder.position->number;
  };
  outcome_ = lease::acquire(*store, clock, request, {std::chrono::hours(1)}, observer, cancel_);
  decided_at_ = BootClock::now();
  const auto* const lease = *outcome_ ? std::get_if<lease::Lease>(&**outcome_) : nullptr;
  if (lease == nullptr) return;
  store->hold(lease::LeaseStore::RenewedBy::this_store);
  if (job) job(*lease);
  // A release that fails leaves the lock to its lease's end.
  [[maybe_unused]] const auto released = store->release(ref_to(*lease), lease::Actor::holder, {});
  store->wake_up()->leave();
}

const Result<lease::AcquireOutcome>& WaitingRun::outcome() {
  if (thread_.joinable()) thread_.join();
  return outcome_.value();
}

bool WaitingRun::granted() {
  if (!outcome()) UNSCOPED_INFO(outcome().error().message);
  return outcome() && std::holds_alternative<lease::Lease>(*outcome());
}

BootTime WaitingRun::decided_at() {
  [[maybe_unused]] const auto& decided = outcome();
  return decided_at_;
}

}  // namespace dblock::contract
