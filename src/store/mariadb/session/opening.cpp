// The functions of Connection that open a session: on which host, and how it is set up.
#include <algorithm>
#include <chrono>
#include <utility>

#include "store/config/password.hpp"
#include "store/mariadb/session/challenge.hpp"
#include "store/mariadb/session/client_library.hpp"
#include "store/mariadb/session/connection.hpp"

namespace dblock::store::mariadb {
namespace {

ServerError words_of(const HostPort& host, const ServerError& said) {
  return {said.native, host.display() + ": " + said.text, said.lasting};
}

// Joins all hosts' errors in one sentence. The error number is that of a host that failed, not of one that
// merely takes no writes, because the advice in the message depends on that number; and where one may come
// back, not that of a host whose refusal lasts.
ServerError all_words(const std::vector<ServerError>& said) {
  ServerError all{0, ""};
  all.lasting = std::ranges::all_of(said, &ServerError::lasting);
  bool wrong_hosts_only = true;
  for (const auto& error : said) {
    all.text += (all.text.empty() ? "" : "; ") + error.text;
    const bool decides = all.lasting || !error.lasting;
    if (decides && (all.native == 0 || !is_wrong_host(error))) all.native = error.native;
    if (!is_wrong_host(error)) wrong_hosts_only = false;
  }
  if (wrong_hosts_only && said.size() > 1)
    all = {0, all.text +
                  "; no host takes writes: is the primary missing in the list, or a switchover under way?"};
  return all;
}

// For a refused login: the source of the password.
std::string password_words(const MariadbSettings& settings) {
  if (!settings.password) return "; no password is configured" + settings.passed_over;
  return "; the password is from " + settings.password_from;
}

}  // namespace

Result<void> Connection::ensure_open() {
  if (handle_ && hung_up()) {
    ended_while_idle_ = true;
    close();
  }
  if (transaction_ == Transaction::over) return refuse(Errc::unreachable, "its transaction was rolled back");
  if (handle_ && !turned_read_only()) return {};
  if (const auto& library = client_library(); !library)
    return refuse(library.error().code, library.error().message);
  if (!options_.reads_only) return open_somewhere(true);
  // A replica's rows may be old, so a read-only server is used only if no host takes writes.
  if (settings_.hosts.size() > 1 && open_somewhere(true)) return {};
  return open_somewhere(false);
}

// Gets the password where dblock's start did not.
Result<void> Connection::get_password() {
  if (settings_.password || !settings_.password_source.can_be_asked()) return {};
  auto password = ask_for_password(settings_, [this] { return interrupted(); });
  if (interrupted()) return interruption();
  if (!password) return refuse(password.error().code, password.error().message);
  settings_.password = std::move(*password);
  return {};
}

// After a refused login: true if the source of the password tells another one now. A file that cannot be read
// any more tells none.
Result<bool> Connection::renew_password() {
  if (!settings_.password_source.can_be_asked()) return false;
  auto password = ask_for_password(settings_, [this] { return interrupted(); });
  if (interrupted()) return interruption();
  if (!password && password.error().code != Errc::unreachable) return false;
  if (!password) return refuse(password.error().code, password.error().message);
  const bool another = settings_.password != *password;
  settings_.password = std::move(*password);
  return another;
}

// Why no session was opened. A password or a certificate that was right and is refused now is about to be
// replaced at its source.
Error Connection::not_opened(const ServerError& why) const {
  Error error = make_error(attempt_.text(), where_, why, Phase::connect);
  const bool by_password = is_password_refused(why.native);
  if (by_password) error.message += password_words(settings_);
  const bool will_change = why.lasting || (by_password && settings_.password_source.can_be_asked());
  error.may_pass = has_logged_in_ && will_change;
  return error;
}

Result<void> Connection::open_somewhere(bool to_write) {
  bool may_ask = settings_.password.has_value();  // once a try
  DBLOCK_CHECK(get_password());
  std::vector<ServerError> said;
  for (const std::size_t host : hosts_.order()) {
    const auto begun = std::chrono::steady_clock::now();
    auto opened = open_at(host, to_write);
    if (!opened && is_password_refused(opened.error().native) && std::exchange(may_ask, false)) {
      DBLOCK_TRY(const bool another, renew_password());
      if (another) opened = open_at(host, to_write);
    }
    if (opened) {
      has_logged_in_ = true;
      hosts_.worked(host);
      // From now on a lease may depend on this connection: connecting to a host that is down must not cost
      // more of the lease's time than a lost reply.
      settings_.connect_timeout =
          std::min<std::chrono::milliseconds>(settings_.connect_timeout, options_.network_timeout);
      return {};
    }
    close();
    if (interrupted()) return interruption();
    hosts_.failed(host, std::chrono::steady_clock::now() - begun);
    // A host's refusal is final. The next host is tried only after silence, or if this one takes no writes,
    // or does not show what TLS demands.
    Error error = not_opened(opened.error());
    const bool alone = settings_.hosts.size() <= 1;
    if (error.code != Errc::unreachable && (alone || !opened.error().lasting))
      return std::unexpected(std::move(error));
    said.push_back(settings_.hosts.size() > 1 ? words_of(settings_.hosts[host], opened.error())
                                              : opened.error());
  }
  return std::unexpected(not_opened(all_words(said)));
}

Connection::ServerResult Connection::open_at(std::size_t host, bool to_write) {
  auto handle =
      log_in(settings_, settings_.hosts.empty() ? nullptr : &settings_.hosts[host], options_.network_timeout);
  if (!handle) return std::unexpected(std::move(handle.error()));
  handle_ = std::move(*handle);
  host_ = host;
  {
    const std::lock_guard lock(interrupt_mutex_);
    socket_ = api().mysql_get_socket(handle_.get());
  }
  return set_up(to_write);
}

Connection::ServerResult Connection::set_up(bool to_write) {
  SessionOptions options = options_;
  options.reads_only = !to_write;
  named_locks_refused_ = false;
  if (presence_ && !interrupted()) {
    auto done = send_setup(options, &*presence_);
    if (done || done.error().native == 0 || is_wrong_host(done.error())) return done;
    // Perhaps the server refuses named locks: try without. If the cause is another, that try reports it.
    named_locks_refused_ = true;
  }
  for (int tries = 1;; ++tries) {
    auto done = send_setup(options, nullptr);
    if (done || interrupted()) return done;
    if (!pause_to_retry(done.error().native, tries, k_tries)) return done;
  }
}

// Tries again without Galera's variables if the server does not know them; and if max_join_size forbids to
// read the schema's version, which it does until sql_big_selects is set.
Connection::ServerResult Connection::send_setup(const SessionOptions& options, const lease::OwnerId* own) {
  const auto sent = [&]() -> ServerResult {
    sent_at_ = std::chrono::steady_clock::now();
    auto done = send_with_challenge(handle_.get(),
                                    setup_statement(is_mariadb(), options, check_, own, knows_galera_));
    if (!done) return std::unexpected(wrong_host_error(std::move(done.error())));
    marks_ = done->number / 4;  // whose last two bits are not random
    logs_statements_ = done->logs_statements;
    in_group_ = false;
    return done->has_group_plugin ? see_group(!options.reads_only) : ServerResult{};
  };
  auto done = sent();
  constexpr std::string_view big_selects = "SET SESSION sql_big_selects=1";
  if (!done && done.error().native == k_join_too_big &&
      api().mysql_real_query(handle_.get(), big_selects.data(), big_selects.size()) == 0)
    done = sent();
  if (done || !knows_galera_ || done.error().native != k_unknown_variable) return done;
  knows_galera_ = false;
  return sent();
}

// For a server that has the plugin for replication groups. Where a group is configured, the server must be a
// member to write: one that was restarted and did not join again may take writes, and nobody replicates them.
// A member that lags behind must not answer that a lock is free, or that this holder's lease is gone, so each
// statement of the session waits until the member has caught up.
Connection::ServerResult Connection::see_group(bool to_write) {
  in_group_ = send(render(Verb::catch_up_in_group));
  if (in_group_) return {};
  const ServerError refusal = last_error(handle_.get());
  // Servers before 8.0.14 do not know the variable, later ones before 8.0.16 not the function.
  if (refusal.native == k_unknown_variable || refusal.native == k_no_such_function) return {};
  if (refusal.native != k_function_refuses) return std::unexpected(wrong_host_error(refusal));
  if (!to_write) {  // as on a replica, whose rows may be old
    static_cast<void>(send(render(Verb::read_now_in_group)));
    return {};
  }
  if (!send(render(Verb::group_is_configured))) return std::unexpected(last_error(handle_.get()));
  const auto configured = fetch_rows(handle_.get(), MemoryLimit::few);
  if (!configured) return std::unexpected(configured.error());
  if (configured->rows.empty() || configured->rows.front()[0] != "1") return {};
  return std::unexpected(wrong_host_error(refusal));
}

// Asks a server that logs statements whether it has turned read-only; if so, closes the session and returns
// true.
bool Connection::turned_read_only() {
  const bool asks = logs_statements_ && !in_group_ && !options_.reads_only &&
                    transaction_ == Transaction::none && !awaits_reply_;
  if (!asks) return false;
  const auto answer = read(render(Verb::takes_no_writes));
  if (!answer) return !handle_;
  if (answer->empty() || answer->front()[0] != "1") return false;
  hosts_.failed(host_, {});
  close();
  return true;
}

}  // namespace dblock::store::mariadb
