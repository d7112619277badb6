// What clients, jobs and the faults themselves wrote down about a campaign, and the judge of it.
//
// All of them use one clock (CLOCK_BOOTTIME of one host), so that "before" means before. A line is one event,
// a JSON object written by a single write() with O_APPEND:
//   invoke    op, group, what, ttl   a client starts a command; `op` names it from here on; if it asks for
//   one
//                                    lock: key, mode, slots
//   begin     op, key, mode, token   the holder is at work: by the job itself, or by the client of `acquire`;
//   in
//                                    mode slots: it has slot number `slot` of `slots`
//   beside    op, key                the kernel's file lock says that another holder's process is still alive
//   alive     op                     the holder was certainly still at work at this time
//   end       op                     the job's last word
//   dead      op                     the kernel says that nothing of the job's tree is left
//   return    op, code, alive, say   the command has ended (-n: by signal n), its job's tree had (not)
//   write     op, key, token, accepted, seen   an answer of the fenced store, in the order it gave them
//   use       op, key, token, verb, from, code   a script's or an application's `renew` or `release` of that
//                                    lease, or an application's fenced transaction (`store`), sent at `from`
//   stored    op, key, token, from, seen   a transaction that has committed: dblock_assert_held had returned
//                                    at `from`, COMMIT was sent at t, and the row had the token `seen` before
//   revoke    key, token, from, code `release --force`
//   paused    key, from              the key was paused at `from`, and nobody ended the pause until t
//   dark      until, and op or group or neither: no renewal can have been made between t and until
//   final     key, token, held       the key's row when all was over
//   fault, late                      for the reader; something that had to be over by then was not
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace dblock::campaign {

using Nanos = std::int64_t;
constexpr Nanos k_second = 1'000'000'000;

struct Event {
  std::string kind{};
  Nanos t = 0;
  Nanos from = 0;
  Nanos until = 0;
  Nanos ttl = 0;
  int op = 0;
  int group = -1;
  int code = 0;
  int slots = 0;
  int slot = 0;
  long long token = 0;
  long long seen = 0;
  bool accepted = false;
  bool alive = false;
  bool held = false;
  std::string key{};
  std::string mode{};
  std::string what{};
  std::string verb{};
  std::string say{};
};

[[nodiscard]] Nanos now();  // CLOCK_BOOTTIME
[[nodiscard]] std::string to_line(const Event& event);
// Throws on a line that is no event. A last line that was cut short by a kill is no error.
[[nodiscard]] std::vector<Event> read_history(std::istream& in);

// Appends to one file, from any thread and process.
class History {
 public:
  explicit History(std::string path);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;
  void add(const Event& event) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

enum class Rule {
  overlap = 1,  // no two holds of a key at once, beyond what its mode allows
  tokens,       // later grants have greater tokens, no token twice
  stale,        // nothing succeeds with an old token, an expired or a revoked lease; no grant during a fenced
                // transaction
  deadline,     // who cannot renew has stopped when the lease ends
  outcome,      // what was answered is what happened, no grant under a pause, and nothing is left behind
};
[[nodiscard]] const char* to_string(Rule rule);

struct Violation {
  Rule rule;
  std::string text;
  std::vector<Event> events;
};

struct Judgement {
  // How late a machine under load may let a job be stopped, and the server's clock be read.
  Nanos tolerance = k_second;
  // The server's clock was moved further than the margin allows: the tokens alone protect.
  bool clock_beyond_margin = false;
  // What has not ended yet may still end well.
  bool goes_on = false;
};

// In O(n log n). Empty when the history is one that a lock may have.
[[nodiscard]] std::vector<Violation> judge(const std::vector<Event>& history, const Judgement& how = {});

// What was exercised.
struct Exercise {
  int operations = 0;
  int grants = 0;
  int takeovers = 0;  // grants after a lease that its holder left to expire
  int fenced = 0;     // runs that ended with 76
  int writes = 0;
  int refused_writes = 0;
  int pauses = 0;          // that were answered
  int met_readers = 0;     // writers that asked while readers were at work
  int met_full_slots = 0;  // runs that asked for a slot when all were taken
  int orphaned = 0;        // jobs that were at work when dblock was killed
  struct Applications {    // their part of the grants and takeovers above
    int grants = 0;
    int takeovers = 0;
    int lost = 0;
    int stores = 0;  // transactions with dblock_assert_held
    int refused_stores = 0;
  } by_applications{};
};
[[nodiscard]] Exercise count(const std::vector<Event>& history);

}  // namespace dblock::campaign
