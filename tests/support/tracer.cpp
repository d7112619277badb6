#include "support/tracer.hpp"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace dblock::test {
namespace {

constexpr int k_ptrace_options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                                 PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
constexpr int k_own = __WALL | __WNOTHREAD;  // other threads of the test trace runs of their own
constexpr int k_system_call = SIGTRAP | 0x80;

template <typename Data>
long trace(int request, pid_t tid, Data data) {
  return ::ptrace(static_cast<__ptrace_request>(request), tid, nullptr, data);
}

// Nobody else can see these: who is struck before one of them might as well be struck before the next that
// counts.
constexpr std::array k_unseen{
#ifdef SYS_access  // not on arm64, which has the newer forms only
    SYS_access,
    SYS_readlink,
#endif
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_brk,
    SYS_madvise,
    SYS_openat,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_lseek,
    SYS_read,
    SYS_pread64,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_getpid,
    SYS_gettid,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_prlimit64,
    SYS_uname,
    SYS_geteuid,
    SYS_rseq,
    SYS_sched_getaffinity,
    SYS_set_robust_list,
    SYS_timerfd_settime,
    SYS_eventfd2,
    SYS_timerfd_create};

struct Entered {
  long call = 0;
  long first = 0;  // argument
};
// The system call that the thread enters.
std::optional<Entered> entered(pid_t tid) {
  struct __ptrace_syscall_info info {};
  const auto request = static_cast<__ptrace_request>(PTRACE_GET_SYSCALL_INFO);
  if (::ptrace(request, tid, sizeof info, &info) <= 0 || info.op != PTRACE_SYSCALL_INFO_ENTRY)
    return std::nullopt;
  return Entered{static_cast<long>(info.entry.nr), static_cast<long>(info.entry.args[0])};
}

// write() serves pipes and events too, which are no disk's; and what a program says must be heard.
bool concerns(pid_t tid, const Entered& entry, const std::vector<long>& calls) {
  if (std::ranges::find(calls, entry.call) == calls.end()) return false;
  const std::string file = "/proc/" + std::to_string(tid) + "/fd/" + std::to_string(entry.first);
  return entry.call != SYS_write || (entry.first > 2 && std::filesystem::is_regular_file(file));
}

// Enters one that counts.
bool makes_step(pid_t tid) {
  const auto entry = entered(tid);
  return entry && std::ranges::find(k_unseen, entry->call) == k_unseen.end();
}

// On its way into a system call: another number, which no system call has. On its way out: what it returns.
void set_register([[maybe_unused]] pid_t tid, [[maybe_unused]] bool returns, [[maybe_unused]] long value) {
#ifdef __x86_64__
  const std::size_t at = returns ? offsetof(user_regs_struct, rax) : offsetof(user_regs_struct, orig_rax);
  ::ptrace(PTRACE_POKEUSER, tid, at, value);
#endif
}

Spawn held_back(Spawn spec) {
  spec.stopped = true;
  // The search for leaks traces as well, and two cannot.
  spec.env.emplace_back("LSAN_OPTIONS=detect_leaks=0");
  return spec;
}

}  // namespace

std::string why_no_trace() {
  static const bool can = [] {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) ::pause();
    }
    const bool seized = trace(PTRACE_SEIZE, child, static_cast<long>(k_ptrace_options)) == 0;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, __WALL);
    return seized;
  }();
  return can ? "" : "this machine does not let us trace processes (container without ptrace?)";
}

bool halt(pid_t process) {
  int status = 0;
  return trace(PTRACE_SEIZE, process, static_cast<long>(PTRACE_O_EXITKILL)) == 0 &&
         trace(PTRACE_INTERRUPT, process, 0L) == 0 && ::waitpid(process, &status, __WALL) == process &&
         WIFSTOPPED(status);
}

std::string to_string(const Step& step) {
  constexpr std::array names{"dblock", "worker", "guardian"};
  return std::string(names.at(static_cast<std::size_t>(step.who))) + "'s system call " +
         std::to_string(step.number) + (step.after_begin ? " after the job's begin" : "");
}

TracedRun::TracedRun(Spawn spec, std::string begin)
    : process_(held_back(std::move(spec))), begin_(std::move(begin)) {
  const pid_t pid = process_.pid();
  int status = 0;
  if (::waitpid(pid, &status, WUNTRACED | __WALL) != pid || !WIFSTOPPED(status) ||
      trace(PTRACE_SEIZE, pid, static_cast<long>(k_ptrace_options)) != 0)
    throw std::runtime_error(std::string("cannot trace: ") + std::strerror(errno));
  threads_[pid] = {Tracee::dblock, pid, false, 0};
  ::kill(pid, SIGCONT);
}

TracedRun::TracedRun(Spawn spec, Refusal refusal) : TracedRun(std::move(spec)) {
  refusal_ = std::move(refusal);
}

TracedRun::~TracedRun() {
  std::vector<pid_t> processes;
  for (const auto& [tid, thread] : threads_) processes.push_back(thread.process);
  kill(processes);
}

// Any thread's event in the order of the kernel, which tells the end of a process's first thread once its
// others are buried: also those that were halted already when their process ended.
bool TracedRun::run_to(const std::optional<Step>& step) {
  while (anyone_runs()) {
    int status = 0;
    const pid_t tid = ::waitpid(-1, &status, k_own);
    if (tid < 0 && errno == EINTR) continue;
    if (tid < 0) break;
    if (WIFSTOPPED(status)) {
      on_stop(tid, status, step);
    } else {
      on_end(tid, status);
    }
  }
  return halting_;
}

bool TracedRun::anyone_runs() const {
  return std::ranges::any_of(threads_, [](const auto& one) { return !one.second.halted; });
}

void TracedRun::on_stop(pid_t tid, int status, const std::optional<Step>& step) {
  const auto found = threads_.find(tid);
  if (found == threads_.end()) {
    newborn_.insert(tid);
    return;
  }
  const int signal = WSTOPSIG(status);
  const int event = status >> 16;
  if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
    on_birth(tid, event == PTRACE_EVENT_CLONE);
  } else if (event == 0 && signal == k_system_call && refusal_) {
    refuse_or_not(tid, found->second);
  } else if (event == 0 && signal == k_system_call && guardian_ != 0 && makes_step(tid) &&
             count_step(found->second.role, step)) {
    halt_all_but(tid);
  }
  go_on(tid, event == 0 && signal != k_system_call ? signal : 0);
}

// True where it is `wanted`.
bool TracedRun::count_step(Tracee who, const std::optional<Step>& wanted) {
  std::error_code none_yet;
  has_begun_ =
      has_begun_ || (!begin_.empty() && std::filesystem::file_size(begin_, none_yet) > 0 && !none_yet);
  const int number = steps_.at(has_begun_ ? 1 : 0).at(static_cast<std::size_t>(who))++;
  return wanted && wanted->who == who && wanted->after_begin == has_begun_ && wanted->number == number;
}

void TracedRun::refuse_or_not(pid_t tid, Thread& thread) {
  const auto entry = entered(tid);
  if (!entry) {  // it comes out of one
    if (const auto result = std::exchange(thread.refused, std::nullopt)) set_register(tid, true, *result);
    return;
  }
  if (!program_runs_) {
    program_runs_ = entry->call == SYS_execve;
    return;
  }
  if (!concerns(tid, *entry, refusal_->calls)) return;
  const int number = made_++;
  const bool meant = refusal_->lasting ? number >= refusal_->number : number == refusal_->number;
  if (refusal_->number < 0 || !meant) return;
  thread.refused = entry->call == SYS_brk ? 0 : -refusal_->error;  // brk tells where the heap ends, no error
  ++refused_;
  set_register(tid, false, -1);
}

// They stop soon, and go_on() leaves them there. Whoever they give birth to until then is stopped from birth.
void TracedRun::halt_all_but(pid_t stopped) {
  halting_ = true;
  for (const auto& [tid, thread] : threads_) {
    if (tid != stopped) trace(PTRACE_INTERRUPT, tid, 0L);
  }
}

void TracedRun::on_birth(pid_t parent, bool thread) {
  unsigned long message = 0;
  if (trace(PTRACE_GETEVENTMSG, parent, &message) != 0) return;  // killed meanwhile
  const auto child = static_cast<pid_t>(message);
  int status = 0;
  if (newborn_.erase(child) == 0 && (::waitpid(child, &status, __WALL) != child || !WIFSTOPPED(status)))
    return;  // has ended
  const Thread& of = threads_.at(parent);
  if (thread) {
    threads_[child] = {Tracee::worker, of.process, false, 0};
  } else if (of.role == Tracee::dblock && guardian_ == 0) {
    guardian_ = child;
    threads_[child] = {Tracee::guardian, child, false, 0};
  } else {
    trace(PTRACE_DETACH, child, 0L);  // the job
    return;
  }
  go_on(child, 0);
}

void TracedRun::on_end(pid_t tid, int status) {
  threads_.erase(tid);
  newborn_.erase(tid);
  if (tid == process_.pid()) process_.has_ended(status);
}

// Steps count from the guardian's birth only; all before runs at full speed, unless something is to be
// refused.
void TracedRun::go_on(pid_t tid, int signal) {
  Thread& thread = threads_.at(tid);
  thread.halted = halting_;
  thread.signal = signal;
  if (!halting_)
    trace(guardian_ != 0 || refusal_ ? PTRACE_SYSCALL : PTRACE_CONT, tid, static_cast<long>(signal));
}

// The first thread last: its end is told last, and as soon as it runs it may end the process.
std::vector<pid_t> TracedRun::threads_of(pid_t process) const {
  std::vector<pid_t> tids;
  for (const auto& [tid, thread] : threads_) {
    if (thread.process == process && tid != process) tids.push_back(tid);
  }
  if (threads_.contains(process)) tids.push_back(process);
  return tids;
}

void TracedRun::kill(const std::vector<pid_t>& processes) {
  for (const pid_t process : processes) ::kill(process, SIGKILL);
  for (const pid_t process : processes) {
    for (const pid_t tid : threads_of(process)) bury(tid);
  }
}

// A thread that dies while we trace it is ours to bury.
void TracedRun::let_go(pid_t process) {
  for (const pid_t tid : threads_of(process)) {
    const auto signal = static_cast<long>(threads_.at(tid).signal);
    if (trace(PTRACE_DETACH, tid, signal) == 0) {
      threads_.erase(tid);
      continue;
    }
    bury(tid);
  }
}

void TracedRun::bury(pid_t tid) {
  int status = 0;
  while (::waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status)) {
  }
  on_end(tid, status);
}

void TracedRun::let_go() {
  while (!threads_.empty()) let_go(threads_.begin()->second.process);
}

}  // namespace dblock::test
