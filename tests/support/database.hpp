// A fresh store of locks for one case. The same cases run over both stores: what they do to rows behind
// dblock's back they do by methods that mean the same in either.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/config.hpp"
#include "support/connection.hpp"

namespace dblock::test {

// The run is about the embedded store (DBLOCK_TEST_STORE=sqlite); no server may be needed then.
[[nodiscard]] bool local_run();

// What either store can be asked; see database.cpp and local_file.cpp.
class StoreBackend {
 public:
  virtual ~StoreBackend() = default;
  [[nodiscard]] virtual std::string url() const = 0;
  // For whoever makes the tables; jobs may do less (admit_jobs).
  [[nodiscard]] virtual std::string owner_url() const { return url(); }
  // Gives the account of url() what `migrate --print-grants` prints, and no more: every case is a test of it.
  virtual void admit_jobs() {}
  // Gives it all that there is to do in this database, for cases that migrate as they go.
  virtual void admit_owner() {}
  virtual std::vector<Row> sql(const std::string& query) = 0;
  [[nodiscard]] virtual long long schema_version() = 0;  // 0: none yet
  virtual void set_schema_version(long long version, long long serves) = 0;
  // SQL for: these bytes as text, a time's microseconds since the epoch, a time moved by some, a time given
  // so.
  [[nodiscard]] virtual std::string text(const std::string& bytes) const = 0;
  [[nodiscard]] virtual std::string micros_of(const std::string& time) const = 0;
  [[nodiscard]] virtual std::string moved(const std::string& time, long long by) const = 0;
  [[nodiscard]] virtual std::string time_at(long long micros) const = 0;
  [[nodiscard]] virtual std::string more_columns() const = 0;  // that the other store's table does not have
};

// A fresh database in the store that the run is about, gone with its owner.
class Database {
 public:
  enum class Schema { migrated, none };
  explicit Database(Schema schema = Schema::migrated);
  virtual ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] std::string url() const { return backend_->url(); }
  [[nodiscard]] std::string owner_url() const { return backend_->owner_url(); }

  // One column of a key's row: "NULL" without a value, "" without a row.
  [[nodiscard]] std::string column(const std::string& key, const std::string& name) const;
  // A time in microseconds since the epoch; 0 when there is none.
  [[nodiscard]] long long micros(const std::string& key, const std::string& name) const;
  [[nodiscard]] long long expires_micros(const std::string& key) const { return micros(key, "expire_time"); }
  [[nodiscard]] bool has_row(const std::string& key) const;
  // The key has a holder by its row, expired or not.
  [[nodiscard]] bool has_holder(const std::string& key) const;
  // The whole row, to tell whether anything about it has changed.
  [[nodiscard]] std::string row(const std::string& key) const;
  [[nodiscard]] long long rows() const;

  // The owner ids of the places in the key's line, in their order. The places of dead waiters are among them
  // until somebody has removed them.
  [[nodiscard]] std::vector<std::string> line(const std::string& key = "k") const;
  // Until when the last of these places counts: it moves when a waiter renews its place. "" without one.
  [[nodiscard]] std::string line_ends(const std::string& key = "k") const;

  void age(const std::string& key, std::chrono::microseconds by);  // as if all of it had been earlier
  void age_until_expired(const std::string& key, std::chrono::microseconds for_long);
  void set_keep_until(const std::string& key, std::chrono::microseconds from_now);
  void set_number(const std::string& key, const std::string& column, long long value);
  void set_text(const std::string& key, const std::string& column, const std::string& bytes);
  void copy_row(const std::string& key, const std::vector<std::string>& new_keys);
  void rename_row(const std::string& key, const std::string& new_key);
  void delete_rows();

  [[nodiscard]] long long schema_version() const { return backend_->schema_version(); }
  // As a newer dblock leaves it, which says how old one may be that goes on.
  void set_schema_version(long long version, long long serves) {
    backend_->set_schema_version(version, serves);
  }
  void set_schema_version(long long version) { set_schema_version(version, version); }

 protected:
  explicit Database(std::unique_ptr<StoreBackend> backend);
  void set_up(Schema schema) const;
  [[nodiscard]] StoreBackend& backend() const { return *backend_; }

 private:
  // "FROM …" of the lock's own row.
  [[nodiscard]] std::string own_row(const std::string& key) const;
  void update(const std::string& assignments, const std::string& key);
  std::unique_ptr<StoreBackend> backend_;
};

// A fresh database named t_… on a server, for cases that are about the server: tag them [server].
class ServerDatabase final : public Database {
 public:
  explicit ServerDatabase(ServerAddress server = shared_server(), Schema schema = Schema::migrated);
  ~ServerDatabase() override;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string url(const std::string& user = "app") const { return server_.url(name_, user); }
  [[nodiscard]] std::string tcp_url(const std::string& user = "app") const {
    return server_.tcp_url(name_, user);
  }
  [[nodiscard]] const ServerAddress& server() const { return server_; }
  [[nodiscard]] Connection& root() { return root_; }

  std::vector<Row> sql(const std::string& query) { return root_.sql(query); }
  std::string value(const std::string& query) { return root_.value(query); }
  long long number(const std::string& query) { return root_.number(query); }

  // Ids of the sessions that jobs' account has in this database, oldest first; `more` narrows the choice.
  std::vector<std::string> sessions(const std::string& more = "");
  // Those in which a waiter sleeps until another request has ended.
  std::vector<std::string> sleepers();
  // False when it has ended by itself.
  bool kill_session(const std::string& id);

  // An account of this test's own, dropped with it: its name. `clause` follows the name in CREATE USER.
  std::string account(const std::string& clause = "", const std::string& privileges = "ALL");
  // … that has the rights which `migrate --print-grants --applications` prints, and no others.
  std::string application_account();

 private:
  ServerDatabase(ServerAddress server, std::string name, Schema schema);
  ServerAddress server_;
  std::string name_;
  Connection root_;
  std::vector<std::string> accounts_;
};

}  // namespace dblock::test
