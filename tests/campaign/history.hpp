// What clients, jobs and the faults themselves wrote down about a campaign, and the judge of it.
//
// The format of a history, for this judge and for others (judge.py): one event a line, a JSON object, written
// by a single write() with O_APPEND. `e` is the kind of the event, `t` its time. All times are nanoseconds of
// one clock (CLOCK_BOOTTIME of one host), so that "before" means before; lines need not be in order of `t`.
// A field at its default is left out: 0, "", false, and -1 for `group`. A last line that a kill cut short
// counts as none.
//   terms: ttl, margin, step
//       Of every lease. `step`: how far apart two readings of the store's clock can be, beside the time
//       between them. If that is more than the margin, only tokens protect.
//   invoke: op, group, what, ttl; if it asks for one lock: key, mode, slots
//       A client starts a command; `op` names it from here on. `what` begins with run, acquire, application.
//   begin: op, key, token, mode; in mode slots: slot, slots
//       The holder is at work: by the job itself, or by the client of `acquire`. It has slot number `slot` of
//       `slots`. The lock was granted after the invoke, before this, and before an `acquire` returned.
//   beside: op, key
//       The kernel's file lock says that another holder's process is still alive.
//   alive: op           The holder was certainly still at work at this time.
//   end: op             The job's last word.
//   dead: op            The kernel says that nothing of the job's tree is left.
//   return: op, code, alive, say
//       The command has ended (-n: by signal n), and its job's tree is alive or not.
//   write: op, key, token, accepted, seen
//       An answer of the fenced store, in the order it gave them.
//   use: op, key, token, ttl, verb, from, code
//       A script's or an application's `renew` or `release` of that lease, or an application's fenced
//       transaction (`store`), sent at `from`, answered at t. Code 0: done; 76: refused; another one: it is
//       done at any time after `from`, or never.
//   stored: op, key, token, from, seen
//       A transaction that has committed: dblock_assert_held had returned at `from`, COMMIT was sent at t,
//       and the store's row had the token `seen` before.
//   revoke: key, token, from, code
//       `release --force`, with codes as above, and 75: refused.
//   paused: key, from
//       The key was paused at `from`, and nobody ended the pause until t.
//   line: op, key, from
//       The op stood in the line, for the lock alone, at `from`, at t and all the time between, in a place
//       that counted and that others could see; unless somebody passed it meanwhile, because the lock had
//       been free for three seconds.
//   dark: until; op or group or neither
//       No renewal can have been sent between t and until, by this op, by this group, by anybody.
//   final: key, token, held
//       The key's row when all was over.
//   late: say           Something that had to be over by then was not.
//   fault: what, op     For the reader.
// Of a run that is killed early no `begin` tells that it had the lock. What ends a run's hold is not told: it
// releases the lock after its last sign of life, or its lease ends.
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
  Nanos margin = 0;
  Nanos step = 0;
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
  stale,  // nothing succeeds with an old token, another's, an expired or a revoked lease; no grant during a
          // fenced transaction
  deadline,  // no grant before a lease and its margin are over; who cannot renew has stopped when the lease
             // ends
  line,      // no grant before one who came earlier and stands in the line
  outcome,   // what was answered is what happened, no grant under a pause, and nothing is left behind
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
  int places = 0;          // seen in a line
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
