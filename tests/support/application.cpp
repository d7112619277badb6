#include "support/application.hpp"

#include <mysql.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

namespace dblock::test {
namespace {

constexpr long long k_nanos_a_millisecond = 1'000'000;
constexpr milliseconds k_longest_patience(3'600'000);

std::string part_before(std::string& text, char end) {
  const auto at = text.find(end);
  std::string part = text.substr(0, at);
  text = at == std::string::npos ? "" : text.substr(at + 1);
  return part;
}

std::string in_quotes(const std::string& text) {
  return "'" + text + "'";
}

// The server has understood the statement and will refuse a repeat as well: SQLSTATE 45000 of the procedures,
// 42000 of missing rights and wrong SQL. After any other error a repeat can succeed.
bool refuses_for_good(const std::string& sqlstate) {
  return sqlstate == "45000" || sqlstate == "42000";
}

long long clock_nanos() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

std::minstd_rand& dice() {
  static std::atomic<unsigned> threads = 0;
  static thread_local std::minstd_rand random(++threads);
  return random;
}

}  // namespace

struct Application::Session {
  Session() : handle(mysql_init(nullptr)) {}
  ~Session() { mysql_close(handle); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] SqlReply failure() const {
    const bool refused = refuses_for_good(mysql_sqlstate(handle));
    return {refused ? SqlReply::Kind::refused : SqlReply::Kind::unknown, {}, mysql_error(handle)};
  }

  MYSQL* handle;
};

long long LockAnswer::deadline() const {
  return sent_at + remaining.count() * k_nanos_a_millisecond;
}

Application::Application(const std::string& url, std::chrono::seconds patience) : patience_(patience) {
  static const int ready = mysql_library_init(0, nullptr, nullptr);  // not thread-safe by itself
  if (ready != 0) throw std::runtime_error("no client library");
  std::string rest = url.substr(url.find("//") + 2);
  user_ = part_before(rest, '@');
  std::string place = part_before(rest, '/');
  host_ = part_before(place, ':');
  port_ = place.empty() ? 0 : static_cast<unsigned>(std::stoul(place));
  database_ = part_before(rest, '?');
  if (rest.starts_with("socket=")) socket_ = rest.substr(rest.find('=') + 1);
}

Application::~Application() = default;
Application::Application(Application&&) noexcept = default;

bool Application::connect() {
  auto session = std::make_unique<Session>();
  const auto seconds = static_cast<unsigned>(patience_.count());
  for (const auto option : {MYSQL_OPT_CONNECT_TIMEOUT, MYSQL_OPT_READ_TIMEOUT, MYSQL_OPT_WRITE_TIMEOUT})
    mysql_options(session->handle, option, &seconds);
  mysql_options(session->handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
  if (mysql_real_connect(session->handle, host_.c_str(), user_.c_str(), nullptr, database_.c_str(), port_,
                         socket_.empty() ? nullptr : socket_.c_str(), 0) == nullptr)
    return false;
  session_ = std::move(session);
  return true;
}

void Application::disconnect() {
  session_.reset();
}

SqlReply Application::ask(const std::string& statement) {
  if (!session_ && !connect()) return {SqlReply::Kind::unknown, {}, "no connection"};
  MYSQL* const handle = session_->handle;
  SqlReply reply{SqlReply::Kind::rows, {}, {}};
  int more = mysql_real_query(handle, statement.data(), statement.size());
  while (more == 0) {
    MYSQL_RES* const result = mysql_store_result(handle);
    const unsigned columns = result == nullptr ? 0 : mysql_num_fields(result);
    while (MYSQL_ROW cells = result == nullptr ? nullptr : mysql_fetch_row(result)) {
      auto& row = reply.rows.emplace_back();
      for (unsigned i = 0; i < columns; ++i) row.emplace_back(cells[i] == nullptr ? "NULL" : cells[i]);
    }
    mysql_free_result(result);
    more = mysql_errno(handle) != 0 ? 1 : mysql_next_result(handle);
  }
  if (mysql_errno(handle) == 0) return reply;
  reply = session_->failure();
  if (reply.kind == SqlReply::Kind::unknown) disconnect();
  return reply;
}

LockAnswer Application::call(const std::string& statement) {
  const long long sent_at = clock_nanos();
  const SqlReply reply = ask("CALL " + statement);
  if (reply.kind == SqlReply::Kind::refused) throw std::runtime_error(statement + ": " + reply.error);
  LockAnswer answer{"unknown", 0, milliseconds(0), sent_at};
  if (reply.kind == SqlReply::Kind::unknown || reply.rows.empty()) return answer;
  const auto& row = reply.rows.front();
  answer.outcome = row.at(0);
  if (row.at(1) != "NULL") answer.token = std::stoll(row.at(1));
  if (row.at(2) != "NULL") answer.remaining = milliseconds(std::stoll(row.at(2)));
  return answer;
}

LockAnswer Application::acquire(const std::string& key, const std::string& owner, const LockTerms& terms,
                                milliseconds patience) {
  return call("dblock_acquire(" + in_quotes(key) + ", " + in_quotes(owner) + ", " +
              std::to_string(terms.ttl.count()) + ", " + std::to_string(terms.margin.count()) + ", " +
              std::to_string(patience.count()) + ", NULL)");
}

LockAnswer Application::renew(const std::string& key, const std::string& owner) {
  return call("dblock_renew(" + in_quotes(key) + ", " + in_quotes(owner) + ", NULL)");
}

LockAnswer Application::release(const std::string& key, const std::string& owner) {
  return call("dblock_release(" + in_quotes(key) + ", " + in_quotes(owner) + ")");
}

std::string new_owner_id(const std::string& name) {
  static constexpr char k_digits[] = "0123456789abcdef";
  std::random_device random;
  std::string id = name + "@host/";
  for (int i = 0; i < 32; ++i) id += k_digits[random() % 16];
  return id;
}

LockAnswer until_settled(const std::function<LockAnswer()>& call, milliseconds limit) {
  const long long end = clock_nanos() + limit.count() * k_nanos_a_millisecond;
  for (;;) {
    LockAnswer answer = call();
    if (answer.settled() || clock_nanos() >= end) return answer;
    std::this_thread::sleep_for(milliseconds(10));  // else a server that is down is asked all the time
  }
}

namespace {

// `acquire` is told how much of the limit is left.
LockAnswer poll(milliseconds limit, const LockTerms& terms,
                const std::function<LockAnswer(milliseconds)>& acquire) {
  const long long end = clock_nanos() + limit.count() * k_nanos_a_millisecond;
  const auto left = [end] {
    return milliseconds(std::max(0LL, (end - clock_nanos()) / k_nanos_a_millisecond));
  };
  for (;;) {
    // A call whose reply was lost may have been granted, even if the wait is over by now.
    const LockAnswer answer = until_settled([&] { return acquire(left()); }, std::max(limit, terms.ttl));
    if (answer.outcome == "granted" || clock_nanos() >= end) return answer;
    std::this_thread::sleep_for(milliseconds(100 + static_cast<long>(dice()() % 200)));
  }
}

}  // namespace

LockAnswer acquire_by_polling(Application& application, const std::string& key, const std::string& owner,
                              const LockTerms& terms, milliseconds limit) {
  return poll(limit, terms, [&](milliseconds left) {
    return application.acquire(key, owner, terms, std::min(left, k_longest_patience));
  });
}

LockAnswer acquire_behind_all(Application& application, const std::string& key, const std::string& owner,
                              const LockTerms& terms, milliseconds limit) {
  return poll(limit, terms, [&](milliseconds) { return application.acquire(key, owner, terms); });
}

}  // namespace dblock::test
