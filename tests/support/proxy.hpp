// A proxy between dblock and its server that knows where MySQL's packets and statements begin, so that it can
// do harm exactly before a statement, exactly before its reply, or at one packet. Runs on a thread of its
// own; all methods are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/packets.hpp"
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
  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }

  // The next `times` statements for which `matches` is true have their connection cut.
  void cut(Cut how, std::function<bool(const std::string& statement)> matches, int times = 1);
  [[nodiscard]] int cuts() const;         // made so far
  [[nodiscard]] int connections() const;  // tried so far, refused ones too

  // From now on such statements never reach the server; the proxy answers them with this error.
  void refuse_statements(std::function<bool(const std::string& statement)> matches, std::uint16_t error,
                         std::string text);

  // Does harm to the packet of this number. Packets are counted from 0 as they come, of all connections and
  // in both directions, the login's as well.
  void harm(Harm harm, std::size_t at);
  [[nodiscard]] bool struck() const { return struck_; }  // the harm is done
  // The packet held back reaches the server now; returns when the server has answered it or hung up. False
  // when there is none, or the server says nothing for long.
  bool deliver();

  // Sessions from now on have what they read outside of transactions answered by this server, as balancers do
  // that split reads from writes.
  void read_from(const ServerAddress& replica);
  // Sessions from now on have two of the server's: what they send outside of transactions goes to the one and
  // the other by turns, as through proxies that share server sessions among clients. What those promise: a
  // SET is done in both, and a session that asks for a named lock keeps to the first from then on.
  void move_statements();
  [[nodiscard]] int moved() const { return moved_; }  // statements, to the second of a pair

  // From now on sessions begin with this as their time, in seconds since the epoch: dblock's set-up
  // statement, which makes it the server's own, is rewritten.
  void set_time(const std::string& seconds);

  void stall();  // forwards nothing in either direction until resume(): packets vanish on the way
  void resume();
  void refuse(bool on);           // new connections are closed at once
  void cut_all();                 // every connection, now
  void delay(milliseconds time);  // before each forwarded piece

  [[nodiscard]] std::vector<Packet> packets() const;          // every one so far, from all connections
  [[nodiscard]] std::vector<std::string> statements() const;  // theirs
  void forget_statements();                                   // and packets, where one goes on for hours

 private:
  struct Link;
  void loop();
  void accept_one();
  void from_client(Link& link);
  void from_server(Link& link);
  void pass_to_server(Link& link, const std::string& packet);
  void pass_to_client(Link& link, std::string packet, std::string& passed);
  // What is to be done to it.
  [[nodiscard]] Harm note(Packet packet);
  void harm_from_client(Link& link, const std::string& packet, Harm harm);
  // False: the server does not get it.
  [[nodiscard]] bool on_statement(Link& link, const std::string& text);
  // The link's second session answers this command.
  [[nodiscard]] bool is_for_second(Link& link, const std::string& packet);
  // True where the second session has it answered.
  [[nodiscard]] bool done_elsewhere(Link& link, const std::string& packet);
  [[nodiscard]] std::string with_time(std::string packet);

  const ServerAddress upstream_;
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
  std::string second_;  // the socket for second sessions
  bool moves_ = false;  // … which are not for reads alone
  std::atomic<int> moved_ = 0;
  int cuts_ = 0;
  int connections_ = 0;
  bool stalled_ = false;
  bool refuse_ = false;
  bool cut_all_ = false;
  bool ending_ = false;
  milliseconds delay_{0};
  std::vector<Packet> packets_;
  Harm harm_ = Harm::none;
  std::size_t harmed_ = 0;
  std::atomic<bool> struck_ = false;
  std::string held_back_;
  int held_server_ = -1;                      // the connection that the held packet belongs to
  std::vector<std::unique_ptr<Link>> links_;  // of the thread alone
  std::thread thread_;
};

// The URL, which names one more host.
[[nodiscard]] std::string with_host(std::string url, const std::string& host);

// For Proxy::cut(): the statement holds this text.
[[nodiscard]] std::function<bool(const std::string&)> containing(std::string text);

}  // namespace dblock::test
