// A server that is not what it seems: it greets like MariaDB, and what it says then is up to the test.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace dblock::test {

// One conversation, in packets of the protocol, each numbered after the one before.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  [[nodiscard]] int fd() const { return fd_; }

  // The client's next packet; nullopt when it has hung up, or says nothing for a few seconds.
  std::optional<std::string> receive();
  void send(const std::string& payload);
  void send_raw(const std::string& bytes) const;

  void greet(const std::string& plugin = "mysql_native_password");  // offers no TLS
  // Meets the challenge that the last statement may hold (store/mariadb/session/challenge.hpp).
  void ok(char affected_rows = 0);
  [[nodiscard]] bool let_in();  // greet, hear who it is, ok

  [[nodiscard]] const std::string& heard() const { return heard_; }
  void note_heard(const std::string& bytes) { heard_ += bytes; }

 private:
  [[nodiscard]] bool fill(std::size_t wanted);
  int fd_;
  unsigned char number_ = 0;
  std::string pending_, heard_, last_;
};

// Talks to all who come until it is stopped, each on a thread of its own.
class FakeServer {
 public:
  using Talk = std::function<void(Wire& wire)>;
  explicit FakeServer(Talk talk);
  ~FakeServer() { stop(); }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  [[nodiscard]] std::string url(const std::string& user = "app", const std::string& parameters = "") const;
  void stop();
  // All that the clients sent; after stop().
  [[nodiscard]] const std::string& heard() const { return heard_; }

 private:
  void serve();
  void converse(int fd);
  Talk talk_;
  std::mutex mutex_;
  std::string heard_;
  int listener_ = -1, port_ = 0;
  std::thread thread_;
};

// "Send me FILE" (LOCAL INFILE), and "log in by PLUGIN instead".
[[nodiscard]] std::string file_request(const std::string& file);
[[nodiscard]] std::string plugin_request(const std::string& plugin);

}  // namespace dblock::test
