// A set to which writers add numbers under a lock, while writers and servers fail: the proof that the fence
// keeps out whoever writes late. The writers are processes of set_writer.cpp; what they note is judged
// against the table.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/connection.hpp"
#include "support/database.hpp"
#include "support/process.hpp"

namespace dblock::test {

inline constexpr const char* k_lock = "set";
// The shortest there is, so that many leases end. What a fault of a server takes, it takes longer.
inline constexpr milliseconds k_ttl{1000};

// One number of the set. An addition reads the highest position and takes the next.
struct Member {
  long long number = 0;
  long long position = 0;
  long long token = 0;
};

// What the writers have noted. Each line is "EVENT NUMBER TOKEN"; a grant's number is that of the server.
struct Events {
  std::map<long long, long long> tried;  // number, token
  std::set<long long> acknowledged;
  std::set<long long> granted;  // tokens
  std::size_t takeovers = 0;    // of leases that were not released
  std::size_t released = 0;
  std::size_t lapsed = 0;   // leases that a writer let end
  std::size_t refused = 0;  // additions, by dblock_assert_held()
  std::set<long long> undone;
  std::map<std::string, std::size_t> errors;  // other answers, among them additions whose outcome is unknown
  long long newest_token = 0;
  std::string newest_log;         // of the writer that was granted it
  std::size_t newest_server = 0;  // that granted it
};

// A set in which less happened proves nothing.
[[nodiscard]] inline bool is_enough(const Events& events) {
  return events.granted.size() >= 15 && events.takeovers >= 3 && events.refused >= 1 &&
         events.acknowledged.size() >= 100;
}

// What is wrong about the members among themselves: "" when nothing is.
[[nodiscard]] std::string order_violation(const std::vector<Member>& members, const Events& events);
// … and about what the writers were told of them.
[[nodiscard]] std::string violation(const std::vector<Member>& members, const Events& events);

struct Fault {
  std::string name;
  std::function<void()> happen;
};

class Workload {
 public:
  static constexpr int k_writers = 6;
  struct Manners {
    milliseconds margin{200};
    int lapses = 12;  // percent of the leases
  };

  // The table is made in `database`, which all `servers` know.
  Workload(ServerDatabase& database, std::vector<ServerAddress> servers, const Manners& manners);

  // Lets the faults happen in turn, each at least once, and writers be killed and frozen, for
  // workload_time(), or up to a minute until enough has happened. Throws when nothing is added to the set
  // after one of them.
  void suffer(const std::vector<Fault>& faults);
  // Waits until numbers are added; throws when that does not happen.
  void await_additions();
  // Does `meanwhile` again and again, until the set violates the order; "" when that takes too long.
  [[nodiscard]] std::string await_violation(const std::function<void()>& meanwhile = [] {});
  // Ends the writers. What they have noted is complete then.
  void stop();

  [[nodiscard]] const Events& events();
  // The set as the server numbered so shows it.
  [[nodiscard]] std::vector<Member> members(std::size_t server) const;
  // The sessions of the writers on a server end.
  void cut_connections(std::size_t server);
  // The server that granted the newest lease learns of nothing that the other nodes write, until that lease
  // has ended and its holder has gone on.
  void hold_back();
  [[nodiscard]] unsigned seed() const { return seed_; }
  // Numbers of all that happened, for people.
  [[nodiscard]] std::string summary();

 private:
  struct Running {
    std::string log;
    std::unique_ptr<Process> process;
  };
  void begin(Running& writer);
  void kill_holder();
  void freeze_holder();
  Running* holder();
  void read(const std::string& log);

  ServerDatabase& database_;
  std::vector<ServerAddress> servers_;
  Manners manners_;
  std::string user_;
  unsigned seed_;
  std::minstd_rand random_;
  TempDir directory_;
  std::vector<Running> writers_;
  long long begun_ = 0;
  std::vector<std::string> logs_;
  std::map<std::string, std::size_t> read_;  // bytes of each log
  Events events_;
  std::map<std::string, std::size_t> happened_;
};

// DBLOCK_TEST_WORKLOAD_SECONDS, or 15 s.
[[nodiscard]] milliseconds workload_time();

}  // namespace dblock::test
