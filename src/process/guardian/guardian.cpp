#include "process/guardian/guardian.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "process/detached.hpp"
#include "process/guardian/gate_child.hpp"
#include "process/guardian/guardian_rules.hpp"
#include "process/tree.hpp"

namespace dblock::process {
namespace {

// Makes a process group for the job that the job does not lead; 0 on failure. setsid(2) fails for a group's
// leader, so a job that is setsid(1) would fork, and end at once: under cron, but not at a terminal, where
// the job gets no group of its own. The group's first process ends at once; the group lasts until that
// process was waited for, or as long as another process is in it.
pid_t begin_group() {
  const pid_t first = ::vfork();  // NOLINT(bugprone-unsafe-functions): the child ends at once
  if (first == 0) {
    ::setpgid(0, 0);
    ::_exit(0);
  }
  return std::max(first, 0);
}

// The guardian's loop: reports the events of each round to the rules, and carries out the actions they
// return.
class Guardian {
 public:
  explicit Guardian(GuardianSetup setup) : setup_(std::move(setup)), rules_(setup_.spec, ::getsid(0)) {}

  [[noreturn]] void run() {
    ::prctl(PR_SET_NAME, "dblock-guardian");
    if (auto tree = Tree::open()) {
      tree_.emplace(std::move(*tree));
      fork_job();
    } else {
      job_ = -EMFILE;  // Tree::open() worked in dblock a moment ago, so only descriptors can be short
    }
    detach();
    act(rules_.job_forked(job_, ::getpid()));
    for (;;) round();
  }

 private:
  void fork_job();
  void detach();

  void round();
  void await_event();
  void look_at_time();
  void read_messages();
  [[nodiscard]] bool dblock_died() const;
  void look_at_exec();
  void look_at_job();
  void wait_for_children();
  void waited_for(pid_t pid, int wait_status);

  void act(const GuardianRules::Actions& actions);
  void carry_out(const GuardianAction& action);
  void stop_job(int signal);
  void stop_leftovers(int signal);
  void continue_job();
  void continue_stopped();

  GuardianSetup setup_;
  GuardianRules rules_;
  std::optional<Tree> tree_;  // from run() on
  DeadlineTimer timer_;
  BootTime now_{};         // of this round
  UniqueFd child_events_;  // signalfd for SIGCHLD
  UniqueFd exec_error_;
  bool exec_awaited_ = setup_.spec.tell_start;
  pid_t job_ = -1;
  std::optional<pid_t> group_;  // the job's; none at a terminal, where the job stays in the caller's
  pid_t signalled_group_ = 0;   // the group that stop_job() signalled; 0: none, or the job alone
};

// Forks the job before detach(): the job inherits session, terminal and descriptors of dblock's caller, which
// the guardian gives up there.
void Guardian::fork_job() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  child_events_.reset(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  std::array<int, 2> pipe{};
  if (!child_events_ || ::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    job_ = -errno;
    return;
  }
  exec_error_.reset(pipe[0]);
  UniqueFd report(pipe[1]);
  if (!setup_.has_terminal) group_ = begin_group();
  const pid_t self = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // If guardian and dblock are killed together, the kernel still kills the job.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self) ::_exit(125);
    setup_.socket.reset();
    become_job(
        {setup_.spec, setup_.signals, setup_.shared, std::move(setup_.gate), std::move(report), group_});
  }
  job_ = pid < 0 ? -errno : pid;
  if (pid > 0 && group_) ::setpgid(pid, *group_);
  if (pid > 0 && group_ == 0) group_ = pid;
}

void Guardian::detach() {
  ::setsid();
  [[maybe_unused]] const int moved = ::chdir("/");
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(s, SIG_IGN);
  setup_.gate.reset();
  // `| less` must see the end of the job's output although the guardian lives on for the release.
  keep_only({setup_.socket.get(), setup_.dblock.get(), exec_error_.get(), child_events_.get(), timer_.fd(),
             tree_ ? tree_->fd() : -1});
}

// Priority: deadline > dblock's messages > dblock's death > the job's end. The first look at the time is for
// a deadline that was set since the last one: the wait must end by then.
void Guardian::round() {
  look_at_time();
  await_event();
  look_at_time();
  read_messages();
  if (dblock_died()) {
    read_messages();  // dblock may have sent `dismiss` just before its death
    act(rules_.dblock_died());
  }
  signalfd_siginfo ignored{};
  while (::read(child_events_.get(), &ignored, sizeof ignored) > 0) {
  }
  look_at_exec();
  look_at_job();
  wait_for_children();
}

void Guardian::await_event() {
  if (const auto at = rules_.wake_at(now_)) {
    timer_.arm(*at);
  } else {
    timer_.disarm();
  }
  std::array<pollfd, 5> fds{pollfd{setup_.socket.get(), POLLIN, 0}, pollfd{child_events_.get(), POLLIN, 0},
                            pollfd{setup_.dblock.get(), POLLIN, 0}, pollfd{timer_.fd(), POLLIN, 0},
                            pollfd{exec_awaited_ ? exec_error_.get() : -1, POLLIN, 0}};
  ::poll(fds.data(), fds.size(), -1);
}

void Guardian::look_at_time() {
  if (!rules_.watching()) return;
  now_ = BootClock::now();
  act(rules_.time_passed({now_, setup_.shared.deadline()}));
}

void Guardian::read_messages() {
  Message message;
  for (;;) {
    const auto received = receive_record(setup_.socket, message);
    // Closed: dblock is about to die, which dblock_died() will tell. Until then the closed socket would keep
    // poll() from sleeping.
    if (received == Received::closed) setup_.socket.reset();
    if (received != Received::message) return;
    act(rules_.message_received(message, now_));
  }
}

bool Guardian::dblock_died() const {
  pollfd p{setup_.dblock.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

// The exec closes the job's end of the pipe, into which only an exec that fails writes.
void Guardian::look_at_exec() {
  pollfd p{exec_error_.get(), POLLIN, 0};
  if (!exec_awaited_ || ::poll(&p, 1, 0) <= 0) return;
  exec_awaited_ = false;
  if ((p.revents & POLLIN) == 0) act(rules_.job_executed());
}

void Guardian::look_at_job() {
  siginfo_t info{};
  if (rules_.job_runs() && ::waitid(P_PID, static_cast<id_t>(job_), &info, WSTOPPED | WNOHANG) == 0 &&
      info.si_pid != 0)
    act(rules_.job_stopped(info.si_status));
}

void Guardian::wait_for_children() {
  if (!rules_.watching()) return;
  const bool none_left = tree_->collect_ended([this](pid_t pid, int status) { waited_for(pid, status); });
  act(rules_.children_waited_for(none_left, now_));
}

void Guardian::waited_for(pid_t pid, int wait_status) {
  if (pid != job_) return;
  int exec_errno = 0;
  if (::read(exec_error_.get(), &exec_errno, sizeof exec_errno) != sizeof exec_errno) exec_errno = 0;
  act(rules_.job_ended(wait_status, exec_errno));
}

void Guardian::act(const GuardianRules::Actions& actions) {
  for (const GuardianAction& action : actions) carry_out(action);
}

void Guardian::carry_out(const GuardianAction& action) {
  switch (action.kind) {
    case GuardianAction::Kind::tell:
      send_record(setup_.socket, action.message);
      break;
    case GuardianAction::Kind::signal_job:
      ::kill(job_, action.signal);
      break;
    case GuardianAction::Kind::stop_job:
      stop_job(action.signal);
      break;
    case GuardianAction::Kind::stop_leftovers:
      stop_leftovers(action.signal);
      break;
    case GuardianAction::Kind::continue_job:
      continue_job();
      break;
    case GuardianAction::Kind::continue_stopped:
      continue_stopped();
      break;
    case GuardianAction::Kind::look:
      act(rules_.tree_seen(tree_->descendants()));
      break;
    case GuardianAction::Kind::kill_tree:
      act(rules_.tree_killed(!tree_ ||
                             tree_->kill_all([this](pid_t pid, int status) { waited_for(pid, status); })));
      break;
    case GuardianAction::Kind::kill_job:
      ::kill(job_, SIGKILL);
      ::waitpid(job_, nullptr, 0);
      break;
    case GuardianAction::Kind::release:
      if (setup_.shared.release_armed() && setup_.after_death) setup_.after_death(rules_.at_death());
      break;
    case GuardianAction::Kind::end:
      ::_exit(0);
  }
}

// The guardian has not waited for the job yet, so neither the job's pid nor the number of its group can have
// been reused. The job may have moved to a group of its own, as setsid(2) does.
void Guardian::stop_job(int signal) {
  const pid_t group = ::getpgid(job_);
  const bool has_group = group_ && (group == *group_ || group == job_);
  const pid_t target = has_group ? -group : job_;
  signalled_group_ = has_group ? group : 0;
  ::kill(target, signal);
  ::kill(target, SIGCONT);  // a stopped process handles no signal before it continues
}

// Signals the descendants after the job's end. Leaves out the group that stop_job() has signalled: a second
// signal means "hurry" to many programs.
void Guardian::stop_leftovers(int signal) {
  for (const ProcessInfo& process : tree_->descendants()) {
    // /proc shows a group of another PID namespace as 0.
    const bool signalled = signalled_group_ != 0 && process.group == signalled_group_;
    if (process.ended() || signalled) continue;
    Tree::signal(process, signal);
    Tree::signal(process, SIGCONT);
  }
}

// Continues the job's whole group, since Ctrl-Z stops the whole foreground group.
void Guardian::continue_job() {
  const pid_t group = ::getpgid(job_);
  if (group > 0) ::kill(-group, SIGCONT);
  ::kill(job_, SIGCONT);
}

// Members of the foreground group never wait for the terminal, so every stopped one may be continued.
void Guardian::continue_stopped() {
  const bool some_stopped =
      std::ranges::any_of(tree_->descendants(), [](const ProcessInfo& p) { return p.state == 'T'; });
  if (some_stopped) continue_job();
}

}  // namespace

void run_guardian(GuardianSetup setup) {
  Guardian(std::move(setup)).run();
}

}  // namespace dblock::process
