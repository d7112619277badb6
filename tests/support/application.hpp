// An application that takes locks by dblock's stored procedures and keeps a client's part of the protocol.
// After a lost reply it repeats the call under the same owner id over a new connection. It counts a lease
// from the time before it sent the call. Not thread-safe; several applications may run on a thread each.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dblock::test {

using std::chrono::milliseconds;

struct LockTerms {
  milliseconds ttl;
  milliseconds margin;
};

// What a procedure answered to one call.
struct LockAnswer {
  // granted, held, renewed, released, lost or busy, as the procedure says. unknown: the reply was lost, so
  // the server may have done the call or not.
  std::string outcome;
  long long token = 0;
  milliseconds remaining{0};
  long long sent_at = 0;  // CLOCK_BOOTTIME in nanoseconds, read before the call was sent

  [[nodiscard]] bool settled() const { return outcome != "unknown" && outcome != "busy"; }
  // The application holds no lock after this time.
  [[nodiscard]] long long deadline() const;
};

// The reply to a statement of the application's own.
struct SqlReply {
  enum class Kind { rows, refused, unknown } kind;
  std::vector<std::vector<std::string>> rows;  // SQL NULL is "NULL"
  std::string error;                           // the server's message
};

class Application {
 public:
  // `url` is mysql://USER@HOST:PORT/DATABASE or mysql://USER@localhost/DATABASE?socket=PATH. Connects with
  // the first call, and again after a lost reply. A reply that takes longer than `patience` is lost.
  explicit Application(const std::string& url, std::chrono::seconds patience = std::chrono::seconds(30));
  ~Application();
  Application(Application&&) noexcept;
  Application& operator=(Application&&) = delete;

  // One call each. Throws if the server refuses it. `patience`: how long the application has a place in the
  // line of a lock that it is not granted; zero: none.
  LockAnswer acquire(const std::string& key, const std::string& owner, const LockTerms& terms,
                     milliseconds patience = milliseconds(0));
  LockAnswer renew(const std::string& key, const std::string& owner);
  LockAnswer release(const std::string& key, const std::string& owner);

  SqlReply ask(const std::string& statement);
  void disconnect();

 private:
  struct Session;
  LockAnswer call(const std::string& statement);
  [[nodiscard]] bool connect();

  std::string user_, host_, database_, socket_;
  unsigned port_ = 0;
  std::chrono::seconds patience_;
  std::unique_ptr<Session> session_;
};

// A new owner id, for one acquisition.
[[nodiscard]] std::string new_owner_id(const std::string& name);

// Repeats a call until its outcome is settled or `limit` has passed: the last answer.
LockAnswer until_settled(const std::function<LockAnswer()>& call, milliseconds limit);

// Takes the lock by asking again and again, after pauses of 100 to 300 ms, until dblock_acquire grants it or
// `limit` has passed: the last answer. Meanwhile the application stands in the line in which `dblock run
// --wait` waits too.
LockAnswer acquire_by_polling(Application& application, const std::string& key, const std::string& owner,
                              const LockTerms& terms, milliseconds limit);

// The same without a place: whoever waits comes first.
LockAnswer acquire_behind_all(Application& application, const std::string& key, const std::string& owner,
                              const LockTerms& terms, milliseconds limit);

}  // namespace dblock::test
