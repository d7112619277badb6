// A proxy between dblock and its server that knows where MySQL's statements begin, so that a connection can
// be cut exactly before a statement or exactly before its reply. Runs on a thread of its own; all methods are
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/server.hpp"

namespace dblock::test {

class Proxy {
 public:
  enum class Cut {
    before_statement,  // the server never sees it
    before_reply,      // the server has done it and answered; the answer is thrown away
    never_answered,    // no cut: the answer is thrown away, and nothing else comes over the connection
  };

  explicit Proxy(ServerAddress upstream);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] std::string url(const std::string& database, const std::string& user = "app") const;

  // The next `times` statements for which `matches` is true have their connection cut.
  void cut(Cut how, std::function<bool(const std::string& statement)> matches, int times = 1);
  [[nodiscard]] int cuts() const;         // made so far
  [[nodiscard]] int connections() const;  // tried so far, refused ones too

  // From now on such statements never reach the server; the proxy answers them with this error.
  void refuse_statements(std::function<bool(const std::string& statement)> matches, std::uint16_t error,
                         std::string text);

  // Sessions from now on have what they read outside of transactions answered by this server, as balancers do
  // that split reads from writes.
  void read_from(const ServerAddress& replica);

  // From now on sessions begin with this as their time, in seconds since the epoch: dblock's set-up
  // statement, which makes it the server's own, is rewritten.
  void set_time(const std::string& seconds);

  void stall();  // forwards nothing in either direction until resume(): packets vanish on the way
  void resume();
  void refuse(bool on);           // new connections are closed at once
  void cut_all();                 // every connection, now
  void delay(milliseconds time);  // before each forwarded piece

  [[nodiscard]] std::vector<std::string> statements() const;  // every one seen so far, from all connections
  void forget_statements();                                   // those, where one goes on for hours

 private:
  struct Link;
  void loop();
  void accept_one();
  [[nodiscard]] std::string with_time(std::string packet);
  void from_client(Link& link);
  void from_server(Link& link);
  [[nodiscard]] bool on_packet(Link& link, const std::string& packet);  // false: cut now
  [[nodiscard]] bool on_statement(Link& link, const std::string& text);
  // True where the replica has it answered.
  [[nodiscard]] bool read_elsewhere(Link& link, const std::string& packet);

  ServerAddress upstream_;
  int listener_ = -1;
  int wake_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  Cut how_ = Cut::before_statement;
  std::function<bool(const std::string&)> matches_;
  int times_ = 0;
  std::function<bool(const std::string&)> refused_;
  std::string refusal_;
  std::string time_;
  std::string replica_;  // its socket
  int cuts_ = 0;
  int connections_ = 0;
  bool stalled_ = false;
  bool refuse_ = false;
  bool cut_all_ = false;
  bool ending_ = false;
  milliseconds delay_{0};
  std::vector<std::string> statements_;
  std::vector<std::unique_ptr<Link>> links_;  // of the thread alone
  std::thread thread_;
};

// For Proxy::cut(): the statement holds this text.
[[nodiscard]] std::function<bool(const std::string&)> containing(std::string text);

}  // namespace dblock::test
