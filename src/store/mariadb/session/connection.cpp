#include "store/mariadb/session/connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/duration.hpp"
#include "store/mariadb/session/client_library.hpp"

namespace dblock::store::mariadb {
namespace {

// A server takes longer to leave its replication group and join again.
constexpr auto k_fastest_rejoin = std::chrono::seconds(2);

std::string in_words(Micros limit) {
  return format_duration(std::chrono::ceil<std::chrono::milliseconds>(limit));
}

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

}  // namespace

Connection::Call::Call(Connection& connection, Attempt attempt, Micros reply_limit)
    : connection_(connection) {
  connection_.attempt_ = std::move(attempt);
  connection_.reply_limit_ = reply_limit;
  const std::lock_guard lock(connection_.interrupt_mutex_);
  assert(!connection_.in_call_);
  connection_.in_call_ = true;
  connection_.interrupted_ = false;
}

Connection::Call::~Call() {
  const std::lock_guard lock(connection_.interrupt_mutex_);
  connection_.in_call_ = false;
}

Connection::Connection(MariadbSettings settings, const SessionOptions& options, SchemaCheck check)
    : settings_(std::move(settings)),
      options_(options),
      check_(check),
      where_(settings_.display()),
      hosts_(std::max<std::size_t>(1, settings_.hosts.size())) {
  forget_environment();
}

Connection::~Connection() {
  close();
}

bool Connection::is_mariadb() const {
  return mariadb::is_mariadb(handle_.get());
}

void Connection::set_presence(std::optional<lease::OwnerId> own) {
  if (own == presence_) return;
  close();
  presence_ = std::move(own);
  release_ends_presence_ = false;
}

Connection::ShownBy Connection::presence() const {
  if (!presence_) return ShownBy::nothing;
  return named_locks_refused_ ? ShownBy::refused : ShownBy::named_lock;
}

// No member of a group logs statements, so there a statement may ask which server it runs on, and free a
// named lock.
Additions Connection::next_additions() {
  const bool proves_writes = !logs_statements_ || in_group_;
  const bool wakes = proves_writes && release_ends_presence_ && presence_ && !named_locks_refused_ &&
                     transaction_ == Transaction::none;
  return {marks_++ % k_marks, proves_writes, in_group_, wakes};
}

bool Connection::server_has_flag(unsigned flag) const {
  unsigned flags = 0;
  api().mariadb_get_infov(handle_.get(), MARIADB_CONNECTION_SERVER_STATUS, &flags);
  return (flags & flag) != 0;
}

std::optional<Connection::LateReply> Connection::send_for_late_reply(const std::string& sql) {
  if (!handle_ || api().mysql_send_query(handle_.get(), sql.data(), sql.size()) != 0) {
    close();
    return std::nullopt;
  }
  keep_alive(socket());
  awaits_reply_ = true;
  return LateReply(*this);
}

int Connection::socket() const {
  return handle_ ? api().mysql_get_socket(handle_.get()) : -1;
}

std::optional<std::vector<Row>> Connection::LateReply::read() {
  Connection& from = connection_;
  from.awaits_reply_ = false;
  MYSQL* const handle = from.handle_.get();
  if (handle != nullptr && api().mysql_read_query_result(handle) == 0) {
    if (auto table = fetch_rows(handle, MemoryLimit::few)) return std::move(table->rows);
  }
  from.close();
  return std::nullopt;
}

Result<ChangeEffect> Connection::change(Verb verb, const Parameters& parameters) {
  const Additions added = next_additions();
  DBLOCK_CHECK(change(render(verb, parameters, added)));
  const VerbFacts facts = facts_of(verb);
  const std::uint64_t rows = api().mysql_affected_rows(handle_.get());
  if (facts.one_lease && rows != 0 && rows != facts.rows_per_lease)
    return wrong_reply("it tells of another number of rows", Phase::write);
  ChangeEffect changed{rows / facts.rows_per_lease};
  const std::uint64_t id = api().mysql_insert_id(handle_.get());
  if (changed.rows == 0 || id == 0 || facts.tells == Tells::nothing) return changed;
  if (facts.tells == Tells::marked && id % k_marks != added.mark)
    return wrong_reply("it carries the mark of another statement", Phase::write);
  changed.reported = facts.tells == Tells::marked ? id / k_marks : id;
  return changed;
}

Result<void> Connection::change(const std::string& sql) {
  DBLOCK_CHECK(run(sql, Phase::write));
  return replied_as_asked(transaction_ == Transaction::open, Phase::write);
}

Result<std::vector<Row>> Connection::read(const std::string& sql, MemoryLimit limit) {
  DBLOCK_CHECK(run(sql, Phase::read));
  auto table = fetch_rows(handle_.get(), limit);
  if (!table && table.error().native == 0) return wrong_reply(table.error().text, Phase::read);
  if (!table) return std::unexpected(failure(refusal(), Phase::read));
  DBLOCK_CHECK(replied_as_asked(transaction_ == Transaction::open, Phase::read));
  return std::move(table->rows);
}

Result<void> Connection::run(const std::string& sql, Phase phase) {
  if (transaction_ == Transaction::over) return refuse(Errc::unreachable, "its transaction was rolled back");
  if (!handle_) return refuse(Errc::unreachable, "the connection is closed");
  std::size_t hosts_left = settings_.hosts.size();
  for (int tries = 1;; ++tries) {
    // An interruption is a definite answer here: nothing was sent yet, or the server rolled it back.
    if (interrupted()) return interruption();
    if (send(sql)) return {};
    const ServerError why = refusal();
    // The statement was certainly not executed: the server has just turned read-only or left its group, or is
    // a Galera node without a majority, which accepts the session's set-up and refuses the first statement.
    if (transaction_ == Transaction::none && hosts_left > 1 && is_wrong_host(why)) {
      --hosts_left;
      hosts_.failed(host_, {});
      close();
      DBLOCK_CHECK(ensure_open());
      continue;
    }
    if (transaction_ != Transaction::none || !pause_to_retry(why.native, tries, k_tries))
      return std::unexpected(failure(why, phase));
  }
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

// Each reply tells whether a transaction is open. If that is not as expected, the reply belongs to another
// statement, or COMMIT did not commit.
Result<void> Connection::replied_as_asked(bool in_transaction, Phase phase) {
  if (server_has_flag(SERVER_STATUS_IN_TRANS) == in_transaction) return {};
  return wrong_reply(in_transaction ? "no transaction is open" : "a transaction is open", phase);
}

// Closes the session: after one reply too many or too few, as from a broken proxy, no later reply would
// belong to its statement.
std::unexpected<Error> Connection::wrong_reply(const std::string& why, Phase phase) {
  close();
  return refuse(
      phase == Phase::read ? Errc::unreachable : Errc::indeterminate,
      "the reply is not to what was asked (" + why + "); what is between this host and the server?");
}

// Why the last statement failed. Where another member of the replication group changed a row first, it is a
// deadlock, as on Galera.
ServerError Connection::refusal() {
  ServerError error = wrong_host_error(last_error(handle_.get()));
  if (error.native == k_rolled_back_at_commit && stayed_in_group()) error.native = k_deadlock;
  return error;
}

// A member that leaves its group gives up what it has sent to the others, and they may commit it: see
// known_errors.hpp. Sets a variable to the value that it has, since a SELECT would wait for the other
// members' transactions.
bool Connection::stayed_in_group() {
  const auto sent_at = sent_at_;
  return in_group_ && send(render(Verb::catch_up_in_group)) &&
         std::chrono::steady_clock::now() - sent_at < k_fastest_rejoin;
}

Error Connection::failure(ServerError error, Phase phase) {
  if (std::exchange(unanswered_, false))
    error = {k_connection_lost, "no answer within " + in_words(reply_limit_)};
  if (is_wrong_host(error) || is_cut_off(error)) {
    hosts_.failed(host_, {});
  } else if (!keeps_connection(error.native) && !interrupted()) {
    const auto took = std::chrono::steady_clock::now() - sent_at_;
    if (is_client_side(error.native)) hosts_.failed(host_, took);
  }
  if (!keeps_connection(error.native)) close();
  // Before COMMIT is sent, the end of the session undoes all that the transaction did.
  const bool undone = transaction_ != Transaction::none && phase != Phase::commit;
  if (undone && error.native != k_duplicate_key) transaction_ = Transaction::over;
  return make_error(attempt_.text(), where_, error, undone ? Phase::read : phase);
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

std::unexpected<Error> Connection::interruption() const {
  return refuse(Errc::unreachable, "broken off");
}

std::unexpected<Error> Connection::refuse(Errc code, const std::string& why, unsigned native) const {
  return fail(code, attempt_.text() + " on " + where_ + ": " + why, native);
}

}  // namespace dblock::store::mariadb
