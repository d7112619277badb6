// One run of dblock under ptrace(2), to halt it before an exact system call of any of its threads, and there
// to kill it, keep it frozen, or let it go. Threads of one run belong to the thread that made the object: use
// it on that one alone. Several runs may be traced at once, each on a thread of its own.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace dblock::test {

// Why this machine does not let us trace, or nothing: for DBLOCK_NEEDS. Containers may forbid it.
[[nodiscard]] std::string why_no_trace();

// Halts all of a process of one thread until it is killed. The caller's thread is then the first to be told
// of its end, and has to wait for it before anyone else can.
[[nodiscard]] bool halt(pid_t process);

// Whose system calls. The worker is dblock's second thread, which owns the connection.
enum class Tracee { dblock, worker, guardian };
inline constexpr std::array k_tracees{Tracee::dblock, Tracee::worker, Tracee::guardian};

// Before the number-th system call that others can notice, from 0: counted from the guardian's birth, and
// anew from the begin of the job. A slow machine makes more of them than a quick one before the job begins,
// so that one count for both would seldom meet the job there.
struct Step {
  Tracee who = Tracee::dblock;
  int number = 0;
  bool after_begin = false;
};
[[nodiscard]] std::string to_string(const Step& step);
// How many: [after the job's begin][whose].
using StepCounts = std::array<std::array<int, k_tracees.size()>, 2>;

// What the kernel refuses to dblock, its worker and the guardian, counted over all three from the start of
// the program: the number-th of these system calls, from 0; with `lasting`, all that come after it too.
struct Refusal {
  std::vector<long> calls;
  int error = 0;
  int number = 0;
  bool lasting = false;
};

class TracedRun {
 public:
  // The job has begun when there is something in the file `begin`; empty: nobody asks.
  explicit TracedRun(Spawn spec, std::string begin = "");
  // Nothing is refused where `refusal.number` is below 0: then the calls are only counted. On x86-64 alone.
  TracedRun(Spawn spec, Refusal refusal);
  ~TracedRun();
  TracedRun(const TracedRun&) = delete;
  TracedRun& operator=(const TracedRun&) = delete;

  // True with all threads of dblock and guardian halted, the one of `step` just before it; who ended
  // meanwhile is buried. False when the run has ended without making it. Without a step: to the end. Takes
  // the ends of all children of the caller's thread: it must have no other.
  bool run_to(const std::optional<Step>& step);
  [[nodiscard]] const StepCounts& steps() const { return steps_; }

  // How many of the calls were made that a Refusal names, and how many of them were refused.
  [[nodiscard]] int made() const { return made_; }
  [[nodiscard]] int refused() const { return refused_; }

  [[nodiscard]] pid_t dblock() const { return process_.pid(); }
  [[nodiscard]] pid_t guardian() const { return guardian_; }  // 0: none yet

  // Of a halted run. Whoever is neither killed nor let go stays frozen, and SIGCONT does not help it.
  void kill(const std::vector<pid_t>& processes);
  void let_go(pid_t process);
  void let_go();

  [[nodiscard]] Process& process() { return process_; }

 private:
  struct Thread {
    Tracee role = Tracee::dblock;
    pid_t process = 0;
    bool halted = false;
    int signal = 0;                 // to be delivered when it goes on
    std::optional<long> refused{};  // what the system call returns that it is in
  };
  [[nodiscard]] bool anyone_runs() const;
  void on_stop(pid_t tid, int status, const std::optional<Step>& step);
  void on_birth(pid_t parent, bool thread);
  void on_end(pid_t tid, int status);
  bool count_step(Tracee who, const std::optional<Step>& wanted);
  void refuse_or_not(pid_t tid, Thread& thread);
  void halt_all_but(pid_t stopped);
  void go_on(pid_t tid, int signal);  // unless all are to halt
  [[nodiscard]] std::vector<pid_t> threads_of(pid_t process) const;
  void bury(pid_t tid);  // of which we are told the end

  Process process_;
  std::string begin_;
  bool has_begun_ = false;
  pid_t guardian_ = 0;
  std::map<pid_t, Thread> threads_;
  bool halting_ = false;
  std::set<pid_t> newborn_;  // seen before their parent's word of them
  StepCounts steps_{};
  std::optional<Refusal> refusal_;
  bool program_runs_ = false;  // what comes before is the test's own
  int made_ = 0, refused_ = 0;
};

}  // namespace dblock::test
