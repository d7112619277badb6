// One session on a MariaDB or MySQL server. No raw handle leaves this folder.
//
// THREADING: not thread-safe, except interrupt().
// ensure_open() opens the session. Any error that leaves the session in doubt closes it, and the next
// ensure_open() opens a new one. No statement is sent twice if it may have been executed: only a statement or
// transaction that the server itself rolled back (deadlock, lock wait timeout), or refused as read-only, is
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
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "store/attempt.hpp"
#include "store/config/settings.hpp"
#include "store/mariadb/session/errors.hpp"
#include "store/mariadb/session/host_order.hpp"
#include "store/mariadb/session/login.hpp"
#include "store/mariadb/session/result.hpp"
#include "store/mariadb/session/session_statements.hpp"
#include "store/mariadb/sql.hpp"
#include "store/rows.hpp"
#include "store/session_options.hpp"

namespace dblock::store::mariadb {

struct ChangeEffect {
  std::uint64_t rows = 0;  // matched by the statement; VerbFacts::rows_per_lease of them count as one
  // nullopt: nothing (Tells), or the server forgot the value of LAST_INSERT_ID(), as triggers make it do.
  std::optional<std::uint64_t> reported{};
};

class Connection {
 public:
  Connection(MariadbSettings settings, const SessionOptions& options, SchemaCheck check);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Spans a call, and is not nested: only while a Call lives, interrupt() breaks the connection. `attempt`
  // begins error messages. A statement that gets no answer within `reply_limit` also breaks it, unless the
  // limit is zero. (The library's own timeouts are whole seconds.)
  class Call {
   public:
    Call(Connection& connection, Attempt attempt, Micros reply_limit = Micros{0});
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Connection& connection_;
  };

  // Opens the session, on the first host that answers and takes writes, unless it is open and the server has
  // not hung up. Where the server logs statements, and a statement therefore cannot prove that the server
  // takes writes, asks it, and leaves a server that has turned read-only; the server itself would not stop an
  // account that may write on read-only servers.
  [[nodiscard]] Result<void> ensure_open();

  // Runs a statement that changes rows. If the reply is to another statement, by its mark or by the number of
  // rows of a grant, closes the session and returns Errc::indeterminate. REQUIRES: ensure_open() succeeded in
  // this call.
  [[nodiscard]] Result<ChangeEffect> change(Verb verb, const Parameters& parameters);
  // Runs text that tells nothing.
  [[nodiscard]] Result<void> change(const std::string& sql);

  // Runs a statement that only reads. REQUIRES: as change().
  [[nodiscard]] Result<std::vector<Row>> read(const std::string& sql, MemoryLimit limit = MemoryLimit::few);

  // Runs `body` in one transaction, and rolls back if `body` fails. Runs `body` again if the server rolled
  // back. Errc::indeterminate: the reply to COMMIT was lost. If the session breaks before COMMIT, nothing was
  // done, and no new session is opened until `body` has returned. REQUIRES: as change(); not nested.
  [[nodiscard]] Result<void> in_transaction(const std::function<Result<void>()>& body);

  // From now on, opening a session also shows that this request is there (wake_up.hpp). Closes a session that
  // was opened for another request or for none.
  void set_presence(std::optional<lease::OwnerId> own);
  // What shows it: nothing yet, a named lock, or nothing, since the server refused GET_LOCK when the session
  // was opened.
  enum class ShownBy { nothing, named_lock, refused };
  [[nodiscard]] ShownBy presence() const;
  // From now on a release ends the presence too. REQUIRES: the request holds its lease, and waits for no
  // other.
  void end_presence_by_release() { release_ends_presence_ = true; }
  // Tries hosts in the other connection's order, so that this one reads nothing older than the other does.
  void use_host_order_of(const Connection& other) { hosts_ = other.hosts_; }

  // A reply that may be hours away. Until it is read the session can do nothing else; close() makes the
  // server give the statement up.
  class LateReply {
   public:
    explicit LateReply(Connection& connection) : connection_(connection) {}

    // False once the reply was read or the session is closed.
    [[nodiscard]] bool is_due() const { return connection_.get().awaits_reply_; }
    // Becomes readable when the reply comes or the connection breaks.
    [[nodiscard]] int socket() const { return connection_.get().socket(); }
    // nullopt, with the session closed, if the reply is an error.
    [[nodiscard]] std::optional<std::vector<Row>> read();

   private:
    std::reference_wrapper<Connection> connection_;
  };
  // Sends a statement whose reply may be hours away. nullopt, with the session closed, if sending failed.
  // REQUIRES: ensure_open() succeeded in this call.
  [[nodiscard]] std::optional<LateReply> send_for_late_reply(const std::string& sql);

  // True if since the last call the session was found to have ended while it was idle: by the server, or by
  // something in between.
  [[nodiscard]] bool ended_while_idle() { return std::exchange(ended_while_idle_, false); }

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  [[nodiscard]] bool is_mariadb() const;  // REQUIRES: is_open()

  // Ends the session, if it is open.
  void close() noexcept;

  // Thread-safe: see lease::LeaseStore::interrupt().
  void interrupt() noexcept;

  [[nodiscard]] Attempt& attempt() { return attempt_; }
  // An error of the call: "cannot renew lock "k" on mysql://host/db: why".
  [[nodiscard]] std::unexpected<Error> refuse(Errc code, const std::string& why, unsigned native = 0) const;
  [[nodiscard]] bool transaction_is_open() const { return transaction_ == Transaction::open; }

 private:
  using ServerResult = std::expected<void, ServerError>;
  [[nodiscard]] int socket() const;
  [[nodiscard]] Result<void> open_somewhere(bool to_write);
  [[nodiscard]] Result<void> get_password();
  [[nodiscard]] Result<bool> renew_password();
  [[nodiscard]] Error not_opened(const ServerError& why) const;
  [[nodiscard]] ServerResult open_at(std::size_t host, bool to_write);
  [[nodiscard]] ServerResult set_up(bool to_write);
  [[nodiscard]] bool turned_read_only();
  [[nodiscard]] Result<void> try_transaction(const std::function<Result<void>()>& body);
  [[nodiscard]] Result<void> commit();
  void roll_back() noexcept;
  [[nodiscard]] Result<void> run(const std::string& sql, Phase phase);
  [[nodiscard]] bool send(const std::string& sql);
  void await_reply();
  [[nodiscard]] ServerResult send_setup(const SessionOptions& options, const lease::OwnerId* own);
  [[nodiscard]] ServerResult see_group(bool to_write);
  [[nodiscard]] bool server_has_flag(unsigned flag) const;
  [[nodiscard]] Additions next_additions();
  [[nodiscard]] std::unexpected<Error> wrong_reply(const std::string& why, Phase phase);
  [[nodiscard]] Result<void> replied_as_asked(bool in_transaction, Phase phase);
  [[nodiscard]] bool hung_up() const;
  [[nodiscard]] bool interrupted();
  [[nodiscard]] std::unexpected<Error> interruption() const;
  [[nodiscard]] ServerError refusal();
  [[nodiscard]] bool stayed_in_group();
  [[nodiscard]] Error failure(ServerError error, Phase phase);
  // Tries of one statement that the server rolls back. After a deadlock, which costs no time, several are
  // worthwhile.
  static constexpr int k_tries = 4;
  // Pauses after a statement or transaction failed with error `native`, for the next try. False, without a
  // pause, if there must not be one: the server did not roll it back, or there were `most_tries` tries.
  [[nodiscard]] bool pause_to_retry(unsigned native, int tries, int most_tries);

  MariadbSettings settings_;
  const SessionOptions options_;
  const SchemaCheck check_;
  const std::string where_;
  Handle handle_;
  HostOrder hosts_;
  std::size_t host_ = 0;                             // index of the session's host
  std::chrono::steady_clock::time_point sent_at_{};  // when the last statement was sent
  Attempt attempt_;                                  // of the current call, or of the last one
  Micros reply_limit_{0};                            // of the current call; zero: none but the library's
  bool unanswered_ = false;                          // the last statement got no answer within reply_limit_
  bool logs_statements_ = false;                     // in its binary log: binlog_format=STATEMENT
  bool in_group_ = false;  // a replication group is configured, and the server was a member at the set-up
  bool knows_galera_ = true;
  bool has_logged_in_ = false;              // at least once
  std::optional<std::minstd_rand> random_;  // seeded at the first pause

  std::optional<lease::OwnerId> presence_;
  bool release_ends_presence_ = false;
  bool named_locks_refused_ = false;
  bool awaits_reply_ = false;
  bool ended_while_idle_ = false;
  std::uint64_t marks_ = 0;  // starts at a random number in each session

  // `over`: the transaction was rolled back or lost while its body still runs. The body's further statements
  // must not be sent: outside a transaction the server would commit each of them at once.
  enum class Transaction { none, open, over };
  Transaction transaction_ = Transaction::none;

  // Guards socket_: interrupt() must not shut down a descriptor that was closed and reused for another file.
  std::mutex interrupt_mutex_;
  int socket_ = -1;
  bool in_call_ = false;
  bool interrupted_ = false;
};

}  // namespace dblock::store::mariadb
