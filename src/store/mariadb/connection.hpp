// One session on a MariaDB or MySQL server. No raw handle leaves this folder.
//
// THREADING: not thread-safe, except interrupt().
// The connection is opened when first needed. After any error that leaves the session in doubt it is closed,
// never left half-open, and the next begin() opens a new one. Nothing is ever sent twice, except that a
// statement or a whole transaction that the server rolled back by itself (deadlock, lock wait timeout) is
// tried again a few times.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/config/settings.hpp"
#include "store/mariadb/errors.hpp"
#include "store/mariadb/host_order.hpp"
#include "store/mariadb/login.hpp"
#include "store/mariadb/result.hpp"
#include "store/mariadb/session_statements.hpp"
#include "store/mariadb/verbs.hpp"
#include "store/open.hpp"
#include "store/rows.hpp"

namespace dblock::store::mariadb {

struct Changed {
  std::uint64_t rows = 0;       // matched by the statement
  std::uint64_t insert_id = 0;  // the value given to LAST_INSERT_ID()
};

class Connection {
 public:
  // A bare session is known to be the server's, but not set up: fit for reading a row.
  enum class Session { full, bare };
  Connection(MariadbSettings settings, const SessionOptions& options, SchemaCheck check,
             Session session = Session::full);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // A call: between its construction and destruction interrupt() breaks the connection. So does a statement
  // that is not answered within `reply_limit`, where that is not zero: the library counts in whole seconds.
  class Call {
   public:
    explicit Call(Connection& connection, Micros reply_limit = Micros{0});
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Connection& connection_;
  };

  // Opens the session unless it is open and the server has not hung up in the meantime: on the first host
  // that answers and takes writes. With several hosts an open session whose server has turned read-only is
  // left for another; an account that may write all the same would not notice. `attempt` says what the caller
  // is about: "cannot renew lock "k"".
  [[nodiscard]] Result<void> ensure_open(const std::string& attempt);

  // A statement that changes rows. REQUIRES: ensure_open() succeeded in this call.
  [[nodiscard]] Result<Changed> change(const std::string& sql, const std::string& attempt);

  // The mark for a statement that tells something (verbs.hpp), and what its reply told: nothing
  // where the server forgets what LAST_INSERT_ID() was given, as triggers make it do. A reply that is not to
  // this statement closes the session and leaves unknown what was done.
  [[nodiscard]] Mark next_mark() { return {marks_++ % k_marks}; }
  [[nodiscard]] Result<std::optional<std::uint64_t>> told(const Changed& changed, Mark mark,
                                                          const std::string& attempt);

  // A statement that only reads. REQUIRES: as change().
  [[nodiscard]] Result<std::vector<Row>> read(const std::string& sql, const std::string& attempt,
                                              Most most = Most::few);

  // One transaction around what `body` changes and reads, rolled back where it fails. `body` runs again when
  // the server rolled back. Errc::indeterminate: the reply to COMMIT was lost. A session that broke before
  // leaves nothing done, and is not replaced before the body has returned. REQUIRES: as change(); not nested.
  [[nodiscard]] Result<void> in_transaction(const std::string& attempt,
                                            const std::function<Result<void>()>& body);

  // Opening a session takes the turn in this line along (line_statements.hpp), from now on. A session that
  // was opened without is closed.
  void set_line(std::optional<lease::Key> line);
  // Asks the hosts in the other's order: what is read there is not older than what it sees.
  void follow(const Connection& other) { hosts_ = other.hosts_; }
  void forget_line() noexcept { line_.reset(); }
  [[nodiscard]] bool has_turn() const;
  // The server would not have it: no GET_LOCK here.
  [[nodiscard]] bool line_refused() const { return line_refused_; }

  // A statement whose reply may be hours away. Meanwhile the session is good for nothing else, and close()
  // makes the server give the statement up. REQUIRES: ensure_open() succeeded in this call.
  [[nodiscard]] bool send_ahead(const std::string& sql);
  [[nodiscard]] bool awaits_reply() const { return awaits_reply_; }
  [[nodiscard]] int socket() const;  // readable when the reply is there, or never will be
  // Takes the reply in; false, and closed, where it is an error.
  [[nodiscard]] bool take_reply();

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  [[nodiscard]] bool is_mariadb() const;  // REQUIRES: is_open()

  // Says goodbye to the server.
  void close() noexcept;

  // Thread-safe: see lease::LeaseStore::interrupt().
  void interrupt() noexcept;

  [[nodiscard]] const MariadbSettings& settings() const { return settings_; }
  [[nodiscard]] bool reads_only() const { return options_.reads_only; }

 private:
  using Said = std::expected<void, ServerWords>;
  [[nodiscard]] Result<void> open_somewhere(const std::string& attempt, bool to_write);
  [[nodiscard]] Said open_at(std::size_t host, bool to_write);
  [[nodiscard]] Said set_up(bool to_write);
  [[nodiscard]] bool turned_read_only(const std::string& attempt);
  [[nodiscard]] Result<void> try_transaction(const std::string& attempt,
                                             const std::function<Result<void>()>& body);
  [[nodiscard]] Result<void> commit(const std::string& attempt);
  void roll_back() noexcept;
  [[nodiscard]] Result<void> run(const std::string& sql, const std::string& attempt, Phase phase);
  [[nodiscard]] bool send(const std::string& sql);
  void await_reply();
  [[nodiscard]] Said send_setup(const SessionOptions& options, const lease::Key* line);
  [[nodiscard]] bool server_has_flag(unsigned flag) const;
  [[nodiscard]] Result<void> replied_as_asked(bool in_transaction, const std::string& attempt, Phase phase);
  [[nodiscard]] Error wrong_reply(const std::string& why, const std::string& attempt, Phase phase);
  [[nodiscard]] bool hung_up() const;
  [[nodiscard]] bool interrupted();
  [[nodiscard]] Error interruption(const std::string& attempt) const;
  [[nodiscard]] Error failure(const std::string& attempt, Phase phase);
  void pause_before_retry(int tries);

  MariadbSettings settings_;
  const SessionOptions options_;
  const SchemaCheck check_;
  const Session session_;
  const std::string where_;
  Handle handle_;
  HostOrder hosts_;
  std::size_t host_ = 0;                             // of the session
  std::chrono::steady_clock::time_point sent_at_{};  // the last statement
  Micros reply_limit_{0};                            // of the call under way; zero: the library's
  bool unanswered_ = false;                          // the last statement, within that
  std::chrono::steady_clock::time_point known_to_take_writes_at_{};
  bool knows_galera_ = true;
  std::optional<std::minstd_rand> random_;  // seeded by the first pause

  std::optional<lease::Key> line_;
  bool line_refused_ = false;
  bool awaits_reply_ = false;
  std::uint64_t marks_ = 0;  // begins anywhere in each session

  // `over`: rolled back or lost while its body still runs. What that would send must not be sent: it would be
  // done, and committed at once.
  enum class Transaction { none, open, over };
  Transaction transaction_ = Transaction::none;

  // Guards the descriptor against a shutdown() that comes after its close and hits another file's number.
  std::mutex interrupt_mutex_;
  int socket_ = -1;
  bool in_call_ = false;
  bool interrupted_ = false;
};

}  // namespace dblock::store::mariadb
