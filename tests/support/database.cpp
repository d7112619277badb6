#include "support/database.hpp"

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "support/dblock.hpp"
#include "support/local_file.hpp"

namespace dblock::test {
namespace {

using std::chrono::microseconds;

const std::vector<std::string> k_times{"create_time",         "update_time",        "expire_time",
                                       "hold_until",          "keep_until",         "revoke_time",
                                       "arrived_at",          "last_acquired_at",   "last_released_at",
                                       "success_acquired_at", "success_released_at"};

// All columns that both stores have, but lock_key.
constexpr const char* k_rest_of_row =
    "lock_value, create_time, update_time, expire_time, token, version, lock_count, kind, ttl_us, margin_us, "
    "heartbeat_us, hold_until, keep_until, revoke_time, slot, mode, slots, holder_host, holder_pid, "
    "holder_user, "
    "holder_command, holder_note, last_acquired_at, last_released_at, last_outcome, last_exit_code, "
    "success_acquired_at, success_released_at";

std::string new_name() {
  static unsigned count = 0;
  return "t_" + std::to_string(::getpid()) + "_" + std::to_string(realtime_micros() % 1'000'000'000) + "_" +
         std::to_string(++count);
}

// A database on a server, created and dropped with this object.
class ServerStore final : public StoreBackend {
 public:
  ServerStore(ServerAddress server, std::string name)
      : server_(std::move(server)), name_(std::move(name)), root_(server_, "root", name_) {
    Connection(server_).sql("CREATE DATABASE " + name_);
  }
  ~ServerStore() override {
    try {
      Connection(server_).sql("DROP DATABASE IF EXISTS " + name_);
    } catch (const std::exception&) {
      // The server is stopped or frozen; its directory goes with it.
    }
  }
  ServerStore(const ServerStore&) = delete;
  ServerStore& operator=(const ServerStore&) = delete;

  [[nodiscard]] std::string url() const override { return server_.url(name_); }
  [[nodiscard]] std::string owner_url() const override { return server_.url(name_, "owner"); }
  // The grants outlive the database: its name never comes again, and the server goes with the run.
  void admit_jobs() override {
    const auto printed = dblock_bare({"migrate", "--print-grants", "app@%"}, {"DBLOCK_DB=" + url()});
    if (printed.exit != exited(0)) throw std::runtime_error("no grants are printed: " + printed.err);
    for (const auto& grant : lines(printed.out)) {
      if (grant.starts_with("GRANT ")) sql(grant.substr(0, grant.rfind(';')));
    }
  }
  void admit_owner() override { sql("GRANT ALL ON " + name_ + ".* TO app@'%'"); }
  std::vector<Row> sql(const std::string& query) override { return root_.sql(query); }
  [[nodiscard]] long long schema_version() override {
    return sql("SHOW TABLES").empty() ? 0 : root_.number("SELECT MAX(version) FROM dblock_schema");
  }
  void set_schema_version(long long version, long long serves) override {
    sql("INSERT INTO dblock_schema (version, serves, name, applied_at) VALUES (" + std::to_string(version) +
        ", " + std::to_string(serves) + ", 'by_a_test.sql', UTC_TIMESTAMP(6))");
  }
  [[nodiscard]] std::string text(const std::string& bytes) const override { return sql_hex(bytes); }
  [[nodiscard]] std::string micros_of(const std::string& time) const override {
    return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + time + ")";
  }
  [[nodiscard]] std::string moved(const std::string& time, long long by) const override {
    return time + " + INTERVAL " + std::to_string(by) + " MICROSECOND";
  }
  [[nodiscard]] std::string time_at(long long micros) const override { return moved("'1970-01-01'", micros); }
  [[nodiscard]] std::string more_columns() const override { return ""; }

 private:
  ServerAddress server_;
  std::string name_;
  Connection root_;
};

}  // namespace

bool local_run() {
  const char* const store = std::getenv("DBLOCK_TEST_STORE");
  return store != nullptr && std::string_view(store) == "sqlite";
}

Database::Database(Schema schema)
    : Database(local_run() ? new_local_store() : std::make_unique<ServerStore>(shared_server(), new_name())) {
  set_up(schema);
}

Database::Database(std::unique_ptr<StoreBackend> backend) : backend_(std::move(backend)) {}
Database::~Database() = default;

void Database::set_up(Schema schema) const {
  if (schema == Schema::none) return backend_->admit_owner();
  const auto migrated = dblock(*this, {"migrate"});
  if (migrated.exit != exited(0)) throw std::runtime_error("dblock migrate failed: " + migrated.err);
  backend_->admit_jobs();
}

std::string Database::column(const std::string& key, const std::string& name) const {
  const auto found = backend_->sql("SELECT " + name + own_row(key));
  return found.empty() ? "" : found.front().at(0);
}

std::string Database::own_row(const std::string& key) const {
  return " FROM dblock_lock WHERE slot = 0 AND lock_key = " + backend_->text(key);
}

long long Database::micros(const std::string& key, const std::string& name) const {
  const std::string text = column(key, backend_->micros_of(name));
  return text.empty() || text == "NULL" ? 0 : std::stoll(text);
}

bool Database::has_row(const std::string& key) const {
  return !column(key, "1").empty();
}

bool Database::has_holder(const std::string& key) const {
  const std::string owner = column(key, "lock_value");
  return !owner.empty() && owner != "NULL";
}

std::string Database::row(const std::string& key) const {
  const auto found = backend_->sql("SELECT *" + own_row(key));
  std::string all;
  for (const auto& row : found) {
    for (const auto& cell : row) all += cell + "|";
  }
  return all;
}

long long Database::rows() const {
  return std::stoll(backend_->sql("SELECT COUNT(*) FROM dblock_lock WHERE slot = 0").front().at(0));
}

std::vector<std::string> Database::line(const std::string& key) const {
  std::vector<std::string> owners;
  for (const auto& place : backend_->sql("SELECT owner_id FROM dblock_waiter WHERE lock_key = " +
                                         backend_->text(key) + " ORDER BY arrival, owner_id"))
    owners.push_back(place.at(0));
  return owners;
}

std::string Database::line_ends(const std::string& key) const {
  const auto found =
      backend_->sql("SELECT MAX(seen_until) FROM dblock_waiter WHERE lock_key = " + backend_->text(key));
  return found.empty() || found.front().at(0) == "NULL" ? "" : found.front().at(0);
}

void Database::update(const std::string& assignments, const std::string& key) {
  backend_->sql("UPDATE dblock_lock SET " + assignments +
                " WHERE slot = 0 AND lock_key = " + backend_->text(key));
}

void Database::age(const std::string& key, microseconds by) {
  std::string assignments;
  for (const auto& time : k_times)
    assignments += (assignments.empty() ? "" : ", ") + time + " = " + backend_->moved(time, -by.count());
  update(assignments, key);
}

void Database::age_until_expired(const std::string& key, microseconds for_long) {
  age(key, microseconds(expires_micros(key) - realtime_micros()) + for_long);
}

void Database::set_keep_until(const std::string& key, microseconds from_now) {
  update("keep_until = " + backend_->time_at(realtime_micros() + from_now.count()), key);
}

void Database::set_number(const std::string& key, const std::string& column, long long value) {
  update(column + " = " + std::to_string(value), key);
}

void Database::set_text(const std::string& key, const std::string& column, const std::string& bytes) {
  update(column + " = " + backend_->text(bytes), key);
}

void Database::rename_row(const std::string& key, const std::string& new_key) {
  set_text(key, "lock_key", new_key);
}

void Database::copy_row(const std::string& key, const std::vector<std::string>& new_keys) {
  const std::string rest = k_rest_of_row + backend_->more_columns();
  constexpr std::size_t k_batch = 400;  // SQLite takes no more than 500 parts of a UNION
  for (std::size_t from = 0; from < new_keys.size(); from += k_batch) {
    std::string names;
    for (std::size_t i = from; i < std::min(from + k_batch, new_keys.size()); ++i)
      names += (names.empty() ? "SELECT " : " UNION ALL SELECT ") + backend_->text(new_keys[i]) + " AS name";
    backend_->sql("INSERT INTO dblock_lock (lock_key, " + rest + ") SELECT names.name, " + rest +
                  " FROM dblock_lock, (" + names +
                  ") AS names WHERE slot = 0 AND lock_key = " + backend_->text(key));
  }
}

void Database::delete_rows() {
  backend_->sql("DELETE FROM dblock_lock");
}

ServerDatabase::ServerDatabase(ServerAddress server, Schema schema)
    : ServerDatabase(std::move(server), new_name(), schema) {}

ServerDatabase::ServerDatabase(ServerAddress server, std::string name, Schema schema)
    : Database(std::make_unique<ServerStore>(server, name)),
      server_(std::move(server)),
      name_(std::move(name)),
      root_(server_, "root", name_) {
  set_up(schema);
}

ServerDatabase::~ServerDatabase() {
  try {
    for (const auto& account : accounts_) root_.sql("DROP USER IF EXISTS " + account + "@'%'");
  } catch (const std::exception&) {
    // The server is stopped or frozen; its directory goes with it.
  }
}

std::vector<std::string> ServerDatabase::sessions(const std::string& more) {
  std::vector<std::string> ids;
  for (const auto& row :
       root_.sql("SELECT id FROM information_schema.processlist WHERE user = 'app' AND db = '" + name_ + "'" +
                 (more.empty() ? "" : " AND " + more) + " ORDER BY id"))
    ids.push_back(row.at(0));
  return ids;
}

std::vector<std::string> ServerDatabase::sleepers() {
  return sessions("info LIKE '%GET_LOCK(%' AND state = 'User lock'");
}

bool ServerDatabase::kill_session(const std::string& id) try {
  root_.sql("KILL " + id);
  return true;
} catch (const std::exception&) {
  return false;
}

std::string ServerDatabase::account(const std::string& clause, const std::string& privileges) {
  accounts_.push_back("u" + name_.substr(1) + "_" + std::to_string(accounts_.size()));
  root_.sql("CREATE USER " + accounts_.back() + "@'%' " + clause);
  root_.sql("GRANT " + privileges + " ON " + name_ + ".* TO " + accounts_.back() + "@'%'");
  return accounts_.back();
}

std::string ServerDatabase::application_account() {
  const std::string user = account("", "USAGE");
  const auto printed =
      dblock_bare({"migrate", "--print-grants", user + "@%", "--applications"}, {"DBLOCK_DB=" + url()});
  if (printed.exit != exited(0)) throw std::runtime_error("no grants are printed: " + printed.err);
  for (const auto& grant : lines(printed.out)) {
    if (grant.starts_with("GRANT ")) sql(grant.substr(0, grant.rfind(';')));
  }
  return user;
}

}  // namespace dblock::test
