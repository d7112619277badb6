// A proxy between one run of dblock and its server that does harm at one packet: cuts the connection before
// or after it, delivers a command late, or twice. Packets are counted from 0 as they come, of all connections
// and in both directions, the login's as well. Runs on a thread of its own; all methods are thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/server.hpp"

namespace dblock::test {

enum class Harm {
  none,
  cut_before,  // it never arrives
  cut_after,   // it arrives; nothing after it does
  late,   // a packet of dblock's: its connection is reset, and the server gets it when deliver() is called
  twice,  // a command of dblock's: the server does it twice, and dblock hears the second reply only
};
[[nodiscard]] const char* to_string(Harm harm);

struct Packet {
  std::size_t connection = 0;  // by the order of their coming
  bool from_client = false;
  bool command = false;  // the first packet of a statement
  std::string text;      // of a statement
};

struct Cut {
  Harm harm;  // cut_before or cut_after
  std::size_t at;
};
// The cuts that differ for dblock. To cut before a packet of the server is to cut after the connection's
// packet before it, if there is one. Within a reply the first packet, the second and the last stand for all
// (DBLOCK_TEST_FULL=1: each counts): whoever reads it has some of a result, and no end.
[[nodiscard]] std::vector<Cut> cuts_of(const std::vector<Packet>& packets);

class PacketProxy {
 public:
  PacketProxy(ServerAddress upstream, Harm harm, std::size_t at);
  ~PacketProxy();
  PacketProxy(const PacketProxy&) = delete;
  PacketProxy& operator=(const PacketProxy&) = delete;

  [[nodiscard]] std::string url(const std::string& database, const std::string& user = "app") const;
  [[nodiscard]] std::vector<Packet> packets() const;  // so far
  [[nodiscard]] bool struck() const { return struck_; }

  // The packet held back reaches the server now; returns when the server has answered it or hung up. False
  // when there is none, or the server says nothing for long.
  bool deliver();

 private:
  struct Link;
  void loop();
  void accept_one();
  void from_client(Link& link);
  void from_server(Link& link);
  [[nodiscard]] std::size_t note(Packet packet);
  void pass_to_server(Link& link, const std::string& packet);
  void pass_to_client(Link& link, const std::string& packet);

  const ServerAddress upstream_;
  const Harm harm_;
  const std::size_t at_;
  int listener_ = -1;
  int wake_ = -1;
  int port_ = 0;
  std::size_t connections_ = 0;  // of the thread alone
  std::atomic<bool> ending_ = false;
  std::atomic<bool> struck_ = false;
  mutable std::mutex mutex_;
  std::vector<Packet> packets_;
  std::string held_back_;
  int held_server_ = -1;                      // the connection that the held packet belongs to
  std::vector<std::unique_ptr<Link>> links_;  // of the thread alone
  std::thread thread_;
};

}  // namespace dblock::test
