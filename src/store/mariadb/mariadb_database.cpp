#include "store/mariadb/mariadb_database.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "store/mariadb/factory.hpp"
#include "store/parameters.hpp"

namespace dblock::store::mariadb {
namespace {

using Rows = std::vector<Row>;

// Less than the shortest TTL without its heartbeat: a lease that was live when a reading began has not
// expired when it ends.
constexpr Micros k_reading_lasts = std::chrono::milliseconds(800);

// Another statement locks a row of a lock, or a fence, for as long as its commit takes, and a row that it
// changes during a look refuses that look (1020, where MariaDB before 11.6 has snapshot isolation on); a
// transaction that called dblock_assert_held() keeps its fence for longer than all these looks.
constexpr int k_looks_at_fences = 5;
constexpr Micros k_between_looks = std::chrono::milliseconds(20);

// So often a holder asks whether sessions are scarce.
constexpr Nanos k_holder_asks_after = std::chrono::minutes(1);

// The read-only server that gave this answer; nullopt if the server takes writes.
Field answering_replica(const Rows& rows) {
  for (const auto& row : rows)
    if (row[k_status_columns]) return row[k_status_columns];
  return std::nullopt;
}

// Nothing was written, so a lost reply to COMMIT leaves nothing in doubt.
Error of_reading(Error error) {
  if (error.code == Errc::indeterminate) error.code = Errc::unreachable;
  return error;
}

MemoryLimit memory_limit_of(Verb verb) {
  return facts_of(verb).lists ? MemoryLimit::list : MemoryLimit::few;
}

// A short lease does not outlast a session that hangs while it is opened.
HolderSession for_lease(HolderSession asked, const SessionOptions& options) {
  const bool is_short =
      options.renewal_timeout > Micros{0} && options.renewal_timeout < options.network_timeout;
  return asked == HolderSession::automatic && is_short ? HolderSession::keep : asked;
}

// The first connection tells why dblock's start got no password; by now a command may give one.
MariadbSettings for_second_connection(MariadbSettings settings) {
  settings.password_source.failure.reset();
  return settings;
}

}  // namespace

MariadbDatabase::MariadbDatabase(const MariadbSettings& settings, const SessionOptions& options)
    : connection_(settings, options, SchemaCheck::on),
      aside_(for_second_connection(settings), options, SchemaCheck::off),
      reads_only_(options.reads_only),
      holder_session_(for_lease(settings.connection, options)),
      scarcity_(connection_, k_holder_asks_after),
      renewal_timeout_(options.renewal_timeout),
      wake_up_(connection_, aside_, options),
      replicas_(settings.min_replicas) {}

Result<void> MariadbDatabase::safe_to_grant() {
  if (!replicas_.wanted()) return {};
  DBLOCK_CHECK(end_sleep());
  return replicas_.before_grant(connection_);
}

void MariadbDatabase::expect_release() noexcept {
  if (holder_session_ == HolderSession::brief) return wake_up_.end_session();
  [[maybe_unused]] const bool of_a_waiter = connection_.ended_while_idle();
  connection_.end_presence_by_release();
  wake_up_.restore_idle_time();
}

void MariadbDatabase::rest() noexcept {
  if (holder_session_ == HolderSession::automatic && connection_.ended_while_idle())
    holder_session_ = HolderSession::brief;
  const bool keeps = holder_session_ == HolderSession::keep ||
                     (holder_session_ == HolderSession::automatic && !scarcity_.ask());
  if (!keeps) wake_up_.end_session();
}

Result<void> MariadbDatabase::in_transaction(const Body& body) {
  DBLOCK_CHECK(end_sleep());
  const NamedLockWakeUp::ShortIdleTime short_idle_time(wake_up_);
  return connection_.in_transaction(body);
}

// A caller that would take the lock ends the sleep: the connection is closed and opened again.
Result<void> MariadbDatabase::end_sleep() {
  if (!wake_up_.asleep()) return {};
  connection_.close();
  return connection_.ensure_open();
}

// Closes a session that is to write: its server may have turned read-only since the set-up, and opening a
// session finds the host that takes writes now.
std::unexpected<Error> MariadbDatabase::lagging(Connection& connection, const std::string& replica) const {
  if (!reads_only_) connection.close();
  return connection.refuse(Errc::unreachable,
                           "what was read comes from " + replica +
                               ", which takes no writes and may lag behind; have a proxy send all of "
                               "dblock's statements to the primary");
}

// Reads inside a transaction, because a proxy that splits reads from writes does not send that to a replica.
// Errc::unreachable if a read-only server answers all the same.
Result<Rows> MariadbDatabase::read_in_transaction(Connection& connection, const std::string& statement,
                                                  MemoryLimit limit) const {
  Rows rows;
  auto done = connection.in_transaction([&]() -> Result<void> {
    DBLOCK_TRY(rows, connection.read(statement, limit));
    const Field replica = answering_replica(rows);
    if (!replica) return {};
    return lagging(connection, *replica);
  });
  if (done) return rows;
  return std::unexpected(of_reading(std::move(done.error())));
}

// Reads, and if a read-only server answered, reads again from the primary: a replica may lag behind.
Result<Rows> MariadbDatabase::read_on_primary(Connection& connection, const std::string& statement,
                                              MemoryLimit limit) const {
  DBLOCK_TRY(auto rows, connection.read(statement, limit));
  if (!answering_replica(rows) || reads_only_ || connection.transaction_is_open()) return rows;
  return read_in_transaction(connection, statement, limit);
}

Result<Effect> MariadbDatabase::run(Verb verb, const Parameters& parameters) {
  auto done = execute(verb, parameters);
  if (!done) done.error().statement = name_of(verb);
  return done;
}

Result<Effect> MariadbDatabase::execute(Verb verb, const Parameters& parameters) {
  if (sql(verb).empty()) return Effect{};
  const VerbFacts facts = facts_of(verb);
  if (facts.changes) return change(verb, parameters);
  DBLOCK_TRY(Connection* const connection, awake_connection());
  const std::string statement = render(verb, parameters);
  const MemoryLimit limit = memory_limit_of(verb);
  DBLOCK_TRY(auto rows, facts.looks ? read_on_primary(*connection, statement, limit)
                                    : connection->read(statement, limit));
  return Effect{std::move(rows)};
}

Result<Effect> MariadbDatabase::run_on_primary(Verb verb, const Parameters& parameters) {
  DBLOCK_TRY(auto rows, read_in_transaction(connection_, render(verb, parameters), memory_limit_of(verb)));
  return Effect{std::move(rows)};
}

// A node of Galera waits for what it has not applied yet at START TRANSACTION, not at each statement after
// it. So what is read is as old as the transaction, while the statements compare it with the time of now.
Result<void> MariadbDatabase::on_primary(const Body& body) {
  BootTime begun{};
  const auto read_all = [&]() -> Result<void> {
    DBLOCK_CHECK(body());
    if (BootClock::now() - begun > k_reading_lasts) {
      return connection_.refuse(Errc::unreachable, "reading took longer than " +
                                                       format_duration(k_reading_lasts) +
                                                       ", so what was read may be out of date");
    }
    DBLOCK_TRY(const auto answer, connection_.read(render(Verb::takes_no_writes)));
    if (!answer.empty() && answer.front()[0] != "1") return {};
    DBLOCK_TRY(const auto server, connection_.read(render(Verb::this_server)));
    return lagging(connection_, server.empty() ? "a server" : server.front()[0].value_or("a server"));
  };
  DBLOCK_CHECK(end_sleep());
  DBLOCK_CHECK(connection_.ensure_open());
  begun = BootClock::now();
  auto done = connection_.in_transaction(read_all);
  if (done) return {};
  return std::unexpected(of_reading(std::move(done.error())));
}

// The second connection while the first one sleeps.
Result<Connection*> MariadbDatabase::awake_connection() {
  if (!wake_up_.asleep()) return &connection_;
  aside_.use_host_order_of(connection_);
  DBLOCK_CHECK(aside_.ensure_open());
  return &aside_;
}

Result<Effect> MariadbDatabase::change(Verb verb, const Parameters& parameters) {
  if (!facts_of(verb).while_asleep) DBLOCK_CHECK(end_sleep());
  DBLOCK_TRY(Connection* const connection, awake_connection());
  auto changed = connection->change(verb, parameters);
  if (changed) return Effect{{}, changed->rows, changed->reported};
  if (changed.error().native == k_duplicate_key) return Effect{};
  return std::unexpected(std::move(changed.error()));
}

Result<bool> MariadbDatabase::kept_by_fence(const lease::Key& key, const Error& why) {
  if (!is_lock_wait(why.native)) return false;
  DBLOCK_CHECK(connection_.ensure_open());
  const auto refuses = [&](Verb verb, const Parameters& parameters) {
    const auto free = connection_.read(render(verb, parameters));
    return !free && is_lock_wait(free.error().native);
  };
  const auto is_locked = [&](Verb verb) { return refuses(verb, key_parameters(key)); };
  // No lock has an empty name, so this locks no row.
  if (refuses(Verb::try_fence, {{"key", Scalar("")}})) {
    return connection_.refuse(
        Errc::unreachable,
        "its tables are locked against changes, as a backup does (FLUSH TABLES WITH READ "
        "LOCK), or LOCK TABLES or ALTER TABLE; it goes on when that ends",
        why.native);
  }
  // A job's transaction locks the fence, and with an old snapshot the row as well. A grant under way locks
  // both too and is reported as such a transaction: nothing tells the two apart. A commit that waits for a
  // replica locks a row of the lock, and perhaps its fence.
  DBLOCK_TRY(const bool waits_for_replica, commits_wait_for_replicas(connection_));
  if (!waits_for_replica || !is_locked(Verb::try_row)) return is_locked(Verb::try_fence);
  return connection_.refuse(Errc::unreachable,
                            "its row is locked, and commits wait for a replica to acknowledge them "
                            "(semi-synchronous replication); do the replicas run?",
                            why.native);
}

Result<bool> MariadbDatabase::waits_for_fence(const lease::Key& key) {
  DBLOCK_TRY(const bool may_ask, may_ask_fences());
  if (!may_ask) return false;
  const std::string statement = render(Verb::ask_fences, key_parameters(key));
  for (int looks = 0; looks < k_looks_at_fences; ++looks) {
    if (looks > 0) std::this_thread::sleep_for(k_between_looks);
    const auto rows = connection_.read(statement);
    if (rows && std::ranges::none_of(*rows, [](const Row& row) { return row[0] == "1"; })) return false;
    if (rows || is_lock_wait(rows.error().native) || is_transient(rows.error().native)) continue;
    if (rows.error().code != Errc::denied) return std::unexpected(rows.error());
    log::info(rows.error().message + "; open transactions are not looked for");
    may_ask_fences_ = false;
    return false;
  }
  return true;
}

// A session that may write has found a server that takes writes when it was opened.
Result<bool> MariadbDatabase::may_ask_fences() {
  if (may_ask_fences_ || !reads_only_) return may_ask_fences_.value_or(true);
  DBLOCK_TRY(const auto answer, connection_.read(render(Verb::takes_no_writes)));
  may_ask_fences_ = !answer.empty() && answer.front()[0] == "0";
  return *may_ask_fences_;
}

std::unique_ptr<Database> make_database(const MariadbSettings& settings, const SessionOptions& options) {
  return std::make_unique<MariadbDatabase>(settings, options);
}

}  // namespace dblock::store::mariadb
