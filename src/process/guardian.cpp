#include "process/guardian.hpp"

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
#include <string>
#include <utility>
#include <vector>

#include "process/descriptors.hpp"
#include "process/detached.hpp"
#include "process/gate_child.hpp"
#include "process/hooks.hpp"
#include "process/stop_plan.hpp"
#include "process/tree.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;

// Whether a descendant has left the job's session is no event one could wait for: looked at often at first,
// and ever more rarely.
constexpr Nanos k_first_leftover_poll = 10ms;
constexpr Nanos k_last_leftover_poll = 1s;
// A look while processes come and go may miss one of them.
constexpr int k_looks_that_find_nobody = 3;
// How long members of the group are looked after that a Ctrl-Z may stop late: a shell between vfork() and
// exec cannot be stopped, its child can.
constexpr Nanos k_unpark_period = 1s;
constexpr Nanos k_unpark_poll = 50ms;

BootTime earlier(const std::optional<BootTime>& one, BootTime other) {
  return one ? std::min(*one, other) : other;
}

// A process group for the job that the job does not lead: a leader's setsid(2) fails, so that setsid(1) would
// fork there, and the job end at once, under cron and not at a terminal. The group begins with a process that
// ends at once, and exists while that one is not waited for or has been joined. 0 where it cannot be had.
pid_t begin_group() {
  const pid_t first = ::vfork();  // NOLINT(bugprone-unsafe-functions): it ends at once
  if (first == 0) {
    ::setpgid(0, 0);
    ::_exit(0);
  }
  return std::max(first, 0);
}

class Guardian {
 public:
  explicit Guardian(GuardianSetup setup)
      : setup_(std::move(setup)), plan_(setup_.spec.kill_grace, setup_.spec.slack) {}

  [[noreturn]] void run() {
    ::prctl(PR_SET_NAME, "dblock-guardian");
    job_session_ = ::getsid(0);
    if (auto tree = Tree::open()) {
      tree_.emplace(std::move(*tree));
      fork_job();
    } else {
      job_ = -EMFILE;  // dblock has just done the same
    }
    detach();
    setup_.channel.send({MessageType::ready, job_, 0, {}});
    for (;;) step();
  }

 private:
  enum class Phase { running, leftovers, finished };

  void fork_job();
  void detach();
  void step();
  void follow_plan();
  void handle_children();
  void handle_stopped_job();
  void handle_messages();
  void handle_leftovers();
  [[nodiscard]] bool some_in_session(const std::vector<ProcessInfo>& left);
  void leave_behind(const std::vector<ProcessInfo>& processes);
  void begin_stop(int signal);
  void signal_job_or_group(int signal);
  void signal_rest(int signal, pid_t but_group = 0);
  void continue_job();
  void unpark();
  void kill_tree();
  void finish(bool tree_dead);
  void reaped(pid_t pid, int wait_status);
  [[noreturn]] void dismissed();
  [[noreturn]] void orphaned();
  [[nodiscard]] bool dblock_died() const;

  GuardianSetup setup_;
  StopPlan plan_;
  std::optional<Tree> tree_;  // from run() on
  DeadlineTimer timer_;
  UniqueFd child_events_;  // signalfd for SIGCHLD
  UniqueFd exec_error_;
  pid_t job_ = -1;
  pid_t job_session_ = -1;
  std::optional<pid_t> group_;  // made for the job; at a terminal it stays in the caller's
  pid_t signalled_group_ = 0;   // as a whole; 0: the job alone was, or nobody
  Phase phase_ = Phase::running;
  Nanos leftover_poll_ = k_first_leftover_poll;
  int looks_that_found_nobody_ = 0;
  std::vector<pid_t> ended_by_last_look_;
  std::optional<BootTime> unpark_until_;
  bool fenced_ = false;
  bool job_killed_ = false;
  bool some_left_ = false;
  bool tree_dead_ = false;
};

// The job inherits everything from dblock's caller: session, terminal, descriptors. So it is forked before
// the guardian lets go of them.
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
    // If guardian and dblock are killed together, the kernel still stops the job itself.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self) ::_exit(125);
    setup_.channel.close();
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
  keep_only({setup_.channel.fd(), setup_.dblock.get(), exec_error_.get(), child_events_.get(), timer_.fd(),
             tree_ ? tree_->fd() : -1});
}

void Guardian::step() {
  follow_plan();
  auto wake_at = phase_ == Phase::finished ? std::nullopt : plan_.next_change();
  if (phase_ == Phase::leftovers) wake_at = earlier(wake_at, BootClock::now() + leftover_poll_);
  if (unpark_until_) wake_at = earlier(wake_at, BootClock::now() + k_unpark_poll);
  if (wake_at) {
    timer_.arm(*wake_at);
  } else {
    timer_.disarm();
  }
  std::array<pollfd, 4> fds{pollfd{setup_.channel.fd(), POLLIN, 0}, pollfd{child_events_.get(), POLLIN, 0},
                            pollfd{setup_.dblock.get(), POLLIN, 0}, pollfd{timer_.fd(), POLLIN, 0}};
  ::poll(fds.data(), fds.size(), -1);
  // Before anything else: after a suspend both the deadline and the job's end may be news, and a job that
  // outlived its deadline must not count as ended in time.
  follow_plan();
  handle_messages();
  if (dblock_died()) {
    handle_messages();  // a last "finish" may have come with its death
    orphaned();
  }
  signalfd_siginfo ignored{};
  while (::read(child_events_.get(), &ignored, sizeof ignored) > 0) {
  }
  handle_stopped_job();
  if (unpark_until_) unpark();
  handle_children();
}

bool Guardian::dblock_died() const {
  pollfd p{setup_.dblock.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

void Guardian::follow_plan() {
  if (phase_ == Phase::finished || job_ <= 0) return;
  plan_.set_deadline(setup_.shared.deadline());
  const BootTime now = BootClock::now();
  if (plan_.fence_due(now) && !plan_.stopping()) {
    fenced_ = true;
    begin_stop(setup_.spec.first_signal);
    setup_.channel.send({MessageType::fencing, 0, 0, {}});
  }
  if (plan_.kill_due(now)) kill_tree();
}

// From here there is no way back, even if a late renewal moves the deadline: the job has been told to end.
void Guardian::begin_stop(int signal) {
  if (plan_.stopping()) return;
  plan_.request(BootClock::now());
  if (phase_ == Phase::running) {
    signal_job_or_group(signal);
  } else {
    signal_rest(signal);
  }
}

// The job is unreaped while phase_ is running, so neither its pid nor the number of the group that it is in
// can have been reused. It may have moved to one of its own, as setsid(2) does.
void Guardian::signal_job_or_group(int signal) {
  if (job_ <= 0) return;
  const pid_t group = ::getpgid(job_);
  const bool has_group = group_ && (group == *group_ || group == job_);
  const pid_t target = has_group ? -group : job_;
  signalled_group_ = has_group ? group : 0;
  ::kill(target, signal);
  ::kill(target, SIGCONT);  // a stopped process would not see it
}

// For descendants when the job itself has ended. `but_group` has had the signal already: a second one means
// "hurry" to many programs.
void Guardian::signal_rest(int signal, pid_t but_group) {
  for (const ProcessInfo& process : tree_->descendants()) {
    if (process.ended() || process.group == but_group) continue;
    Tree::signal(process, signal);
    Tree::signal(process, SIGCONT);
  }
}

// Ctrl-Z stopped the whole foreground group, so the whole group goes on.
void Guardian::continue_job() {
  const pid_t group = ::getpgid(job_);
  if (group > 0) ::kill(-group, SIGCONT);
  ::kill(job_, SIGCONT);
}

// The group's members in the foreground cannot be waiting for the terminal, so all that are stopped may go
// on.
void Guardian::unpark() {
  if (phase_ != Phase::running || BootClock::now() >= *unpark_until_) {
    unpark_until_.reset();
    return;
  }
  const bool some_stopped =
      std::ranges::any_of(tree_->descendants(), [](const ProcessInfo& p) { return p.state == 'T'; });
  if (some_stopped) continue_job();
}

void Guardian::handle_stopped_job() {
  if (phase_ != Phase::running || job_ <= 0) return;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(job_), &info, WSTOPPED | WNOHANG) != 0 || info.si_pid == 0) return;
  const int signal = info.si_status;
  const bool for_terminal = signal == SIGTTIN || signal == SIGTTOU;
  if (!for_terminal || plan_.stopping()) continue_job();
  setup_.channel.send({MessageType::job_stopped, signal, 0, {}});
}

void Guardian::handle_children() {
  if (phase_ == Phase::finished || !tree_) return;
  const bool nobody_left = tree_->reap_ended([this](pid_t pid, int status) { reaped(pid, status); });
  if (phase_ != Phase::leftovers) return;
  if (nobody_left) {
    finish(true);
  } else {
    handle_leftovers();
  }
}

void Guardian::reaped(pid_t pid, int wait_status) {
  if (pid != job_ || phase_ != Phase::running) return;
  int exec_errno = 0;
  if (::read(exec_error_.get(), &exec_errno, sizeof exec_errno) != sizeof exec_errno) exec_errno = 0;
  phase_ = Phase::leftovers;
  setup_.channel.send({MessageType::job_exited, wait_status, exec_errno, {}});
  if (plan_.stopping()) signal_rest(setup_.spec.first_signal, signalled_group_);
}

void Guardian::handle_leftovers() {
  if (plan_.stopping() || setup_.spec.leftovers == Leftovers::wait) return;
  if (setup_.spec.leftovers == Leftovers::kill) {
    begin_stop(setup_.spec.first_signal);
    return;
  }
  const std::vector<ProcessInfo> left = tree_->descendants();
  if (setup_.spec.leftovers == Leftovers::automatic && some_in_session(left)) return;
  leave_behind(left);
  finish(true);
}

// Somebody who has just ended may have left a child that this look has missed.
bool Guardian::some_in_session(const std::vector<ProcessInfo>& left) {
  std::vector<pid_t> ended;
  bool some = false;
  for (const ProcessInfo& process : left) {
    if (process.session != job_session_) continue;
    const bool known_to_have_ended =
        process.ended() && std::ranges::find(ended_by_last_look_, process.pid) != ended_by_last_look_.end();
    if (process.ended()) ended.push_back(process.pid);
    if (!known_to_have_ended) some = true;
  }
  ended_by_last_look_ = std::move(ended);
  looks_that_found_nobody_ = some ? 0 : looks_that_found_nobody_ + 1;
  leftover_poll_ = some ? std::min(leftover_poll_ * 2, k_last_leftover_poll) : k_first_leftover_poll;
  return looks_that_found_nobody_ < k_looks_that_find_nobody;
}

void Guardian::leave_behind(const std::vector<ProcessInfo>& processes) {
  for (const ProcessInfo& process : processes) {
    // These need no telling of: a keeper ends by itself with the process it is for, hooks in a short time.
    if (process.ended() || process.name == k_keeper_name || process.name == k_hooks_name) continue;
    setup_.channel.send(Message::with_text(MessageType::left_behind,
                                           process.name + " (" + std::to_string(process.pid) + ")"));
    some_left_ = true;
  }
}

void Guardian::kill_tree() {
  job_killed_ = phase_ == Phase::running;
  finish(tree_->kill_all([this](pid_t pid, int status) { reaped(pid, status); }));
}

void Guardian::finish(bool tree_dead) {
  phase_ = Phase::finished;
  tree_dead_ = tree_dead;
  const std::int32_t how = (fenced_ ? k_fenced : 0) | (job_killed_ ? k_job_killed : 0);
  setup_.channel.send({MessageType::done, tree_dead ? 1 : 0, how, {}});
}

void Guardian::handle_messages() {
  Message message;
  for (;;) {
    const auto received = setup_.channel.receive(message);
    // Closed: dblock is about to die, and only its death counts. A closed channel would keep poll() awake.
    if (received == Channel::Received::closed) setup_.channel.close();
    if (received != Channel::Received::message) return;
    switch (message.type) {
      case MessageType::forward:
        if (phase_ == Phase::running && job_ > 0) ::kill(job_, message.value);
        break;
      case MessageType::stop:
        if (phase_ != Phase::finished) begin_stop(message.value);
        break;
      case MessageType::resume:
        if (phase_ == Phase::running && job_ > 0) continue_job();
        break;
      case MessageType::unpark:
        unpark_until_ = BootClock::now() + k_unpark_period;
        break;
      case MessageType::guard:
        break;  // having been woken is enough: follow_plan() reads the deadline
      case MessageType::finish:
        dismissed();
      default:
        break;
    }
  }
}

// The run is over. A job that never got through the gate goes with us.
void Guardian::dismissed() {
  if (phase_ == Phase::running && job_ > 0) {
    ::kill(job_, SIGKILL);
    ::waitpid(job_, nullptr, 0);
  }
  ::_exit(0);
}

// dblock is dead: nobody renews. The tree goes at once; only when it is known to be gone is the lock given
// back.
void Guardian::orphaned() {
  if (phase_ != Phase::finished) tree_dead_ = !tree_ || tree_->kill_all([](pid_t, int) {});
  if (tree_dead_ && setup_.shared.release_armed() && setup_.after_death) setup_.after_death(some_left_);
  ::_exit(0);
}

}  // namespace

void run_guardian(GuardianSetup setup) {
  Guardian(std::move(setup)).run();
}

}  // namespace dblock::process
