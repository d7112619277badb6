#include "store/mariadb/session/connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/duration.hpp"
#include "store/mariadb/session/challenge.hpp"
#include "store/mariadb/session/client_library.hpp"

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;

// After a deadlock, which costs no time, several tries are worthwhile. A lock wait that timed out has cost
// seconds and means another session's long transaction: the caller must keep its own deadline.
constexpr int k_tries = 4;
constexpr int k_tries_after_lock_wait = 2;
// Several processes that all take a new lock for the first time may each deadlock once with each other one.
constexpr int k_transaction_tries = 8;
constexpr auto k_shortest_pause = 2ms;
constexpr int k_most_doublings = 4;
// A server that took writes within this time is not asked again whether it is read-only.
constexpr auto k_moment = 1s;

int limit_of_tries(unsigned native, int after_deadlock) {
  return native == k_lock_wait_timed_out ? k_tries_after_lock_wait : after_deadlock;
}

std::string in_words(Micros limit) {
  return format_duration(std::chrono::ceil<std::chrono::milliseconds>(limit));
}

// The status flag by which a reply shows k_turn_mode of turnstile_statements.cpp.
constexpr unsigned k_turn_flag = SERVER_STATUS_NO_BACKSLASH_ESCAPES;

// While a reply is hours away, the server sends nothing. TCP keep-alive asks the server's kernel, so dblock
// notices a vanished server within half a minute.
void keep_alive(int socket) {
  const auto set = [socket](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);  // refused for Unix sockets, which need none
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

ServerError words_of(const HostPort& host, const ServerError& said) {
  return {said.native, host.display() + ": " + said.text};
}

// Joins all hosts' errors in one sentence. The error number is that of a host that failed, not of one that
// merely takes no writes, because the advice in the message depends on that number.
ServerError all_words(const std::vector<ServerError>& said) {
  ServerError all{said.back().native, ""};
  bool wrong_hosts_only = true;
  for (const auto& words : said) {
    all.text += (all.text.empty() ? "" : "; ") + words.text;
    if (is_wrong_host(words)) continue;
    wrong_hosts_only = false;
    all.native = words.native;
  }
  if (wrong_hosts_only && said.size() > 1)
    all = {0, all.text +
                  "; no host takes writes: is the primary missing in the list, or a switchover under way?"};
  return all;
}

// For a refused login: the source of the password.
std::string password_words(const MariadbSettings& settings) {
  if (!settings.password) return "; no password is configured";
  return "; the password is from " + settings.password_from;
}

}  // namespace

Connection::Call::Call(Connection& connection, Micros reply_limit) : connection_(connection) {
  connection_.reply_limit_ = reply_limit;
  const std::lock_guard lock(connection_.interrupt_mutex_);
  connection_.in_call_ = true;
  connection_.interrupted_ = false;
}

Connection::Call::~Call() {
  const std::lock_guard lock(connection_.interrupt_mutex_);
  connection_.in_call_ = false;
}

Connection::Connection(MariadbSettings settings, const SessionOptions& options, SchemaCheck check,
                       Session session)
    : settings_(std::move(settings)),
      options_(options),
      check_(check),
      session_(session),
      where_(settings_.display()),
      hosts_(std::max<std::size_t>(1, settings_.hosts.size())) {
  forget_environment();
}

Connection::~Connection() {
  close();
}

Result<void> Connection::ensure_open(const std::string& attempt) {
  if (handle_ && hung_up()) close();
  if (transaction_ == Transaction::over)
    return fail(Errc::unreachable, attempt + " on " + where_ + ": its transaction was rolled back");
  if (handle_ && !turned_read_only(attempt)) return {};
  if (const auto& library = client_library(); !library)
    return fail(library.error().code, attempt + " on " + where_ + ": " + library.error().message);
  if (!options_.reads_only) return open_somewhere(attempt, true);
  // A replica's rows may be old, so a read-only server is used only if no host takes writes.
  if (settings_.hosts.size() > 1 && open_somewhere(attempt, true)) return {};
  return open_somewhere(attempt, false);
}

Result<void> Connection::open_somewhere(const std::string& attempt, bool to_write) {
  std::vector<ServerError> said;
  for (const std::size_t host : hosts_.order()) {
    const auto begun = std::chrono::steady_clock::now();
    const auto opened = open_at(host, to_write);
    if (opened) {
      hosts_.worked(host);
      // From now on a lease may depend on this connection: connecting to a host that is down must not cost
      // more of the lease's time than a lost reply.
      settings_.connect_timeout =
          std::min<std::chrono::milliseconds>(settings_.connect_timeout, options_.network_timeout);
      return {};
    }
    close();
    if (interrupted()) return std::unexpected(interruption(attempt));
    hosts_.failed(host, std::chrono::steady_clock::now() - begun);
    // A host's refusal is final. The next host is tried only after silence, or if this one takes no writes.
    Error error = make_error(attempt, where_, opened.error(), Phase::connect);
    if (is_password_refused(opened.error().native)) error.message += password_words(settings_);
    if (error.code != Errc::unreachable) return std::unexpected(std::move(error));
    said.push_back(settings_.hosts.size() > 1 ? words_of(settings_.hosts[host], opened.error())
                                              : opened.error());
  }
  return std::unexpected(make_error(attempt, where_, all_words(said), Phase::connect));
}

Connection::Said Connection::open_at(std::size_t host, bool to_write) {
  auto handle =
      log_in(settings_, settings_.hosts.empty() ? nullptr : &settings_.hosts[host], options_.network_timeout);
  if (!handle) return std::unexpected(std::move(handle.error()));
  handle_ = std::move(*handle);
  host_ = host;
  {
    const std::lock_guard lock(interrupt_mutex_);
    socket_ = api().mysql_get_socket(handle_.get());
  }
  if (session_ == Session::full) return set_up(to_write);
  const auto done = set_up_bare(handle_.get());
  return done ? Said{} : std::unexpected(done.error());
}

Connection::Said Connection::set_up(bool to_write) {
  SessionOptions options = options_;
  options.reads_only = !to_write;
  known_to_take_writes_at_ = std::chrono::steady_clock::now();
  named_locks_refused_ = false;
  if (turnstile_key_ && !interrupted()) {
    auto done = send_setup(options, &*turnstile_key_);
    if (done || done.error().native == 0 || is_wrong_host(done.error())) return done;
    // Perhaps the server refuses named locks: try without. If the cause is another, that try reports it.
    named_locks_refused_ = true;
  }
  for (int tries = 1;; ++tries) {
    auto done = send_setup(options, nullptr);
    if (done || interrupted()) return done;
    const unsigned native = done.error().native;
    if (!is_transient(native) || tries >= limit_of_tries(native, k_tries)) return done;
    pause_before_retry(tries);
  }
}

// Tries again without Galera's variables if the server does not know them.
Connection::Said Connection::send_setup(const SessionOptions& options, const lease::Key* line) {
  const auto sent = [&]() -> Said {
    sent_at_ = std::chrono::steady_clock::now();
    auto done = send_with_challenge(handle_.get(),
                                    setup_statement(is_mariadb(), options, check_, line, knows_galera_));
    if (!done) return std::unexpected(read_only_error(std::move(done.error())));
    marks_ = *done;
    return {};
  };
  auto done = sent();
  if (done || !knows_galera_ || done.error().native != k_unknown_variable) return done;
  knows_galera_ = false;
  return sent();
}

// Asks the server whether it has turned read-only; if so, closes the session and returns true. Costs one
// statement for a call that comes more than k_moment after the last check. With a single host there is no
// alternative, so nothing is asked.
bool Connection::turned_read_only(const std::string& attempt) {
  const bool asks = settings_.hosts.size() > 1 && session_ == Session::full && !options_.reads_only &&
                    transaction_ == Transaction::none && !awaits_reply_;
  const auto now = std::chrono::steady_clock::now();
  if (!asks || now - known_to_take_writes_at_ < k_moment) return false;
  const auto answer = read(render(Verb::takes_no_writes), attempt);
  if (!answer) return !handle_;
  known_to_take_writes_at_ = now;
  if (answer->empty() || answer->front()[0] != "1") return false;
  hosts_.failed(host_, {});
  close();
  return true;
}

bool Connection::is_mariadb() const {
  return api().mariadb_connection(handle_.get()) != 0;
}

void Connection::set_turnstile_key(std::optional<lease::Key> line) {
  if (line == turnstile_key_) return;
  close();
  turnstile_key_ = std::move(line);
}

bool Connection::has_turn() const {
  return handle_ && turnstile_key_ && !awaits_reply_ && server_has_flag(k_turn_flag);
}

bool Connection::server_has_flag(unsigned flag) const {
  unsigned flags = 0;
  api().mariadb_get_infov(handle_.get(), MARIADB_CONNECTION_SERVER_STATUS, &flags);
  return (flags & flag) != 0;
}

bool Connection::send_ahead(const std::string& sql) {
  if (!handle_ || api().mysql_send_query(handle_.get(), sql.data(), sql.size()) != 0) {
    close();
    return false;
  }
  keep_alive(socket());
  awaits_reply_ = true;
  return true;
}

int Connection::socket() const {
  return handle_ ? api().mysql_get_socket(handle_.get()) : -1;
}

bool Connection::take_reply() {
  awaits_reply_ = false;
  if (handle_ && api().mysql_read_query_result(handle_.get()) == 0) return true;
  close();
  return false;
}

Result<Changed> Connection::change(const std::string& sql, const std::string& attempt) {
  DBLOCK_CHECK(run(sql, attempt, Phase::write));
  DBLOCK_CHECK(replied_as_asked(transaction_ == Transaction::open, attempt, Phase::write));
  return Changed{api().mysql_affected_rows(handle_.get()), api().mysql_insert_id(handle_.get())};
}

Result<std::vector<Row>> Connection::read(const std::string& sql, const std::string& attempt, Most most) {
  DBLOCK_CHECK(run(sql, attempt, Phase::read));
  auto table = fetch_table(handle_.get(), most);
  if (!table && table.error().native == 0)
    return std::unexpected(wrong_reply(table.error().text, attempt, Phase::read));
  if (!table) return std::unexpected(failure(attempt, Phase::read));
  DBLOCK_CHECK(replied_as_asked(transaction_ == Transaction::open, attempt, Phase::read));
  return std::move(table->rows);
}

Result<void> Connection::run(const std::string& sql, const std::string& attempt, Phase phase) {
  if (transaction_ == Transaction::over)
    return fail(Errc::unreachable, attempt + " on " + where_ + ": its transaction was rolled back");
  if (!handle_) return fail(Errc::unreachable, attempt + " on " + where_ + ": the connection is closed");
  std::size_t hosts_left = settings_.hosts.size();
  for (int tries = 1;; ++tries) {
    // An interruption is a definite answer here: nothing was sent yet, or the server rolled it back.
    if (interrupted()) return std::unexpected(interruption(attempt));
    if (send(sql)) return {};
    // The statement was certainly not executed: the server has just turned read-only, or is a Galera node
    // without a majority, which accepts the session's set-up and refuses the first statement.
    if (transaction_ == Transaction::none && is_wrong_host(last_words(handle_.get())) && hosts_left > 1) {
      --hosts_left;
      hosts_.failed(host_, {});
      close();
      DBLOCK_CHECK(ensure_open(attempt));
      continue;
    }
    const unsigned native = api().mysql_errno(handle_.get());
    const bool again = transaction_ == Transaction::none && is_transient(native);
    if (!again || tries >= limit_of_tries(native, k_tries)) return std::unexpected(failure(attempt, phase));
    pause_before_retry(tries);
  }
}

Result<void> Connection::in_transaction(const std::string& attempt,
                                        const std::function<Result<void>()>& body) {
  for (int tries = 1;; ++tries) {
    auto done = try_transaction(attempt, body);
    if (done) return {};
    const unsigned native = done.error().native;
    if (!handle_ || !is_transient(native) || tries >= limit_of_tries(native, k_transaction_tries))
      return done;
    pause_before_retry(tries);
  }
}

Result<void> Connection::try_transaction(const std::string& attempt,
                                         const std::function<Result<void>()>& body) {
  struct Ending {
    Connection& connection;
    ~Ending() { connection.roll_back(); }
  };
  DBLOCK_CHECK(run("START TRANSACTION", attempt, Phase::read));
  DBLOCK_CHECK(replied_as_asked(true, attempt, Phase::read));
  transaction_ = Transaction::open;
  const Ending ending{*this};
  DBLOCK_CHECK(body());
  return commit(attempt);
}

Result<void> Connection::commit(const std::string& attempt) {
  DBLOCK_CHECK(run("COMMIT", attempt, Phase::commit));
  DBLOCK_CHECK(replied_as_asked(false, attempt, Phase::commit));
  transaction_ = Transaction::none;
  return {};
}

// Afterwards the session is in no transaction, or closed.
void Connection::roll_back() noexcept {
  const bool began = std::exchange(transaction_, Transaction::none) != Transaction::none;
  if (began && handle_ && !send("ROLLBACK")) close();
}

bool Connection::send(const std::string& sql) {
  unanswered_ = false;
  sent_at_ = std::chrono::steady_clock::now();
  if (api().mysql_send_query(handle_.get(), sql.data(), sql.size()) != 0) return false;
  await_reply();
  return api().mysql_read_query_result(handle_.get()) == 0;
}

// Waits for the reply's first byte, at most until reply_limit_, then breaks the connection. All earlier
// replies have been read, so the first byte belongs to this reply, also inside TLS.
void Connection::await_reply() {
  if (reply_limit_ <= Micros{0}) return;
  pollfd answer{socket(), POLLIN, 0};
  int ready = 0;
  do {
    const auto left = sent_at_ + reply_limit_ - std::chrono::steady_clock::now();
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::max(left, decltype(left){0}));
    ready = ::poll(&answer, 1, static_cast<int>(wait.count()));
  } while (ready < 0 && errno == EINTR);
  unanswered_ = ready == 0;
  if (unanswered_) ::shutdown(answer.fd, SHUT_RDWR);
}

Result<std::optional<std::uint64_t>> Connection::told(const Changed& changed, Mark mark,
                                                      const std::string& attempt) {
  if (changed.insert_id == 0) return std::nullopt;
  if (changed.insert_id % k_marks == mark.number) return changed.insert_id / k_marks;
  return std::unexpected(wrong_reply("it has another's mark", attempt, Phase::write));
}

// Each reply tells whether a transaction is open. If that is not as expected, the reply belongs to another
// statement, or COMMIT did not commit.
Result<void> Connection::replied_as_asked(bool in_transaction, const std::string& attempt, Phase phase) {
  if (server_has_flag(SERVER_STATUS_IN_TRANS) == in_transaction) return {};
  return std::unexpected(
      wrong_reply(in_transaction ? "no transaction is open" : "a transaction is open", attempt, phase));
}

// Closes the session: after one reply too many or too few, as from a broken proxy, no later reply would
// belong to its statement.
Error Connection::wrong_reply(const std::string& why, const std::string& attempt, Phase phase) {
  close();
  return {phase == Phase::read ? Errc::unreachable : Errc::indeterminate,
          attempt + " on " + where_ + ": the reply is not to what was asked (" + why +
              "); what is between this host and the server?",
          0};
}

// A random pause, so that two sessions that deadlocked do not meet again. Seeding waits until the first
// pause, because std::random_device queries the processor's identity, which is slow in a virtual machine.
void Connection::pause_before_retry(int tries) {
  std::uniform_int_distribution<int> factor(1, 4 << std::min(tries, k_most_doublings));
  if (!random_) random_.emplace(std::random_device{}());
  std::this_thread::sleep_for(k_shortest_pause * factor(*random_));
}

Error Connection::failure(const std::string& attempt, Phase phase) {
  ServerError words = read_only_error(last_words(handle_.get()));
  if (std::exchange(unanswered_, false))
    words = {k_connection_lost, "no answer within " + in_words(reply_limit_)};
  if (is_wrong_host(words) || is_cut_off(words)) {
    hosts_.failed(host_, {});
  } else if (!keeps_connection(words.native) && !interrupted()) {
    const auto took = std::chrono::steady_clock::now() - sent_at_;
    if (is_client_side(words.native)) hosts_.failed(host_, took);
  }
  if (!keeps_connection(words.native)) close();
  // Before COMMIT is sent, the end of the session undoes all that the transaction did.
  const bool undone = transaction_ != Transaction::none && phase != Phase::commit;
  if (undone && words.native != k_duplicate_key) transaction_ = Transaction::over;
  return make_error(attempt, where_, words, undone ? Phase::read : phase);
}

// True if the server has closed the session (restart, wait_timeout). To know that before a statement is sent
// turns an unknown outcome into a plain reconnect. With TLS, readable data may be a session ticket, so only
// the end of the stream counts.
bool Connection::hung_up() const {
  pollfd socket{api().mysql_get_socket(handle_.get()), POLLRDHUP, 0};
  return ::poll(&socket, 1, 0) > 0 && (socket.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

void Connection::close() noexcept {
  if (transaction_ == Transaction::open) transaction_ = Transaction::over;
  if (!handle_) return;
  {
    const std::lock_guard lock(interrupt_mutex_);
    socket_ = -1;
  }
  // While a statement runs, the server checks whether the client has gone. An unread quit message would count
  // as a sign of life, so shut the socket down before the library sends it.
  if (std::exchange(awaits_reply_, false)) ::shutdown(socket(), SHUT_RDWR);
  handle_.reset();
}

void Connection::interrupt() noexcept {
  const std::lock_guard lock(interrupt_mutex_);
  if (!in_call_) return;
  interrupted_ = true;
  if (socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
}

bool Connection::interrupted() {
  const std::lock_guard lock(interrupt_mutex_);
  return interrupted_;
}

Error Connection::interruption(const std::string& attempt) const {
  return Error{Errc::unreachable, attempt + " on " + where_ + ": broken off", 0};
}

}  // namespace dblock::store::mariadb
