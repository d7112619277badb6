// What the guardian decides, without a process: events in, actions out, time as a value.
#include "process/guardian/guardian_rules.hpp"

#include <csignal>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "unit/long_stop.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;
using Act = GuardianAction::Kind;

constexpr pid_t k_job = 100;
constexpr pid_t k_session = 50;
constexpr BootTime k_deadline{100s};
constexpr int k_exited = 3 << 8;  // the wait status of `exit 3`

// With a grace of 4 s and a slack of 1 s: first signal at 95 s, SIGKILL at 99 s.
GuardianRules guard(Leftovers leftovers = Leftovers::automatic) {
  JobSpec spec;
  spec.kill_grace = 4s;
  spec.slack = 1s;
  spec.leftovers = leftovers;
  GuardianRules rules(spec, k_session);
  rules.job_forked(k_job, 1);
  return rules;
}

// The same with a stop grace of ten minutes.
GuardianRules guard_long_to_stop() {
  GuardianRules rules(long_to_stop_spec(), k_session);
  rules.job_forked(k_job, 1);
  return rules;
}

Message stop_for(Stop::Reason why) {
  return {MessageType::stop, SIGTERM, static_cast<int>(why)};
}

GuardianRules guard_leftovers(Leftovers leftovers = Leftovers::automatic) {
  GuardianRules rules = guard(leftovers);
  rules.job_ended(k_exited, 0);
  return rules;
}

// The actions in a line: "stop_job 15, tell fencing".
std::string line_of(const GuardianRules::Actions& actions) {
  static const std::vector<std::string> acts{"tell",         "signal_job",       "stop_job", "stop_leftovers",
                                             "continue_job", "continue_stopped", "look",     "kill_tree",
                                             "kill_job",     "release",          "end"};
  static const std::vector<std::string> words{
      "guard",       "forward",     "stop",       "continue_job", "continue_group", "dismiss", "ready",
      "job_started", "job_stopped", "job_exited", "fencing",      "left_behind",    "done"};
  std::string line;
  for (const GuardianAction& action : actions) {
    line += (line.empty() ? "" : ", ") + acts.at(static_cast<std::size_t>(action.kind));
    if (action.signal != 0) line += " " + std::to_string(action.signal);
    if (action.kind == Act::tell) line += " " + words.at(static_cast<std::size_t>(action.message.type));
  }
  return line;
}

ProcessInfo process_in(pid_t session, const std::string& name, pid_t pid = 101, char state = 'S') {
  ProcessInfo process;
  process.pid = pid;
  process.session = session;
  process.state = state;
  process.name = name;
  return process;
}

}  // namespace

TEST_CASE(
    "the guardian signals the job a grace and the slack before the deadline, and kills its tree the slack "
    "before",
    "[safety]") {
  GuardianRules rules = guard();
  CHECK(line_of(rules.time_passed({BootTime{95s} - 1ns, k_deadline})).empty());
  CHECK(rules.wake_at(BootTime{10s}) == BootTime{95s});
  CHECK(line_of(rules.time_passed({BootTime{95s}, k_deadline})) == "stop_job 15, tell fencing");
  CHECK(line_of(rules.time_passed({BootTime{99s} - 1ns, k_deadline})).empty());
  CHECK(rules.wake_at(BootTime{98s}) == BootTime{99s});
  CHECK(line_of(rules.time_passed({BootTime{99s}, k_deadline})) == "kill_tree");
  const auto told = rules.tree_killed(true);
  CHECK(line_of(told) == "tell done");
  CHECK(told.front().message.value == 1);
  CHECK(told.front().message.detail == (k_job_killed | k_fenced));
}

TEST_CASE("without a deadline the guardian lets the job run, and sleeps") {
  GuardianRules rules = guard();
  CHECK(line_of(rules.time_passed({BootTime{1000h}, {}})).empty());
  CHECK_FALSE(rules.wake_at(BootTime{1000h}));
}

TEST_CASE("a renewal moves the guardian's plan, but does not take a stop back", "[safety]") {
  GuardianRules rules = guard();
  CHECK(line_of(rules.time_passed({BootTime{96s}, BootTime{200s}})).empty());
  CHECK(line_of(rules.time_passed({BootTime{195s}, BootTime{200s}})) == "stop_job 15, tell fencing");
  CHECK(line_of(rules.time_passed({BootTime{199s}, BootTime{900s}})) == "kill_tree");
}

// I4, after a suspend: the deadline is reported before the job's end, which comes too late to count.
TEST_CASE("a job whose end is found after its deadline was stopped by the deadline", "[safety]") {
  GuardianRules rules = guard();
  CHECK(line_of(rules.time_passed({BootTime{300s}, k_deadline})) == "stop_job 15, tell fencing, kill_tree");
  CHECK(line_of(rules.job_ended(k_exited, 0)) == "tell job_exited, stop_leftovers 15");
  CHECK(line_of(rules.tree_killed(true)) == "tell done");
  CHECK(line_of(rules.time_passed({BootTime{301s}, k_deadline})).empty());
}

TEST_CASE("a stop that dblock asks for gets one signal and its grace, also when it is asked for again") {
  GuardianRules rules = guard();
  CHECK(line_of(rules.message_received({MessageType::stop, SIGINT}, BootTime{10s})) == "stop_job 2");
  CHECK(line_of(rules.message_received({MessageType::stop, SIGTERM}, BootTime{12s})).empty());
  CHECK(rules.wake_at(BootTime{12s}) == BootTime{14s});
  CHECK(line_of(rules.time_passed({BootTime{14s} - 1ns, k_deadline})).empty());
  CHECK(line_of(rules.time_passed({BootTime{14s}, k_deadline})) == "kill_tree");
}

TEST_CASE("a job that is asked to stop has its stop grace while renewals move the deadline", "[safety]") {
  GuardianRules rules = guard_long_to_stop();
  CHECK(line_of(rules.message_received(stop_for(Stop::Reason::signal), BootTime{10s})) == "stop_job 15");
  CHECK(line_of(rules.time_passed({BootTime{200s}, BootTime{300s}})).empty());
  CHECK(line_of(rules.time_passed({BootTime{610s} - 1ns, BootTime{900s}})).empty());
  CHECK(line_of(rules.time_passed({BootTime{610s}, BootTime{900s}})) == "kill_tree");
  CHECK(rules.tree_killed(true).front().message.detail == k_job_killed);
}

TEST_CASE("the deadline ends a stop grace: the job is killed, and its lease counts as lost", "[safety]") {
  GuardianRules rules = guard_long_to_stop();
  rules.message_received(stop_for(Stop::Reason::signal), BootTime{10s});
  CHECK(line_of(rules.time_passed({BootTime{95s}, k_deadline})).empty());  // the job has its signal
  CHECK(line_of(rules.time_passed({BootTime{99s} - 1ns, k_deadline})).empty());
  CHECK(rules.wake_at(BootTime{95s}) == BootTime{99s});
  CHECK(line_of(rules.time_passed({BootTime{99s}, k_deadline})) == "kill_tree");
  CHECK(rules.tree_killed(true).front().message.detail == (k_job_killed | k_fenced));
  CHECK(rules.at_death().end->stop.reason == Stop::Reason::self_fence);
}

TEST_CASE("a lease that is lost during the stop grace leaves the job the kill grace, and no second signal",
          "[safety]") {
  GuardianRules rules = guard_long_to_stop();
  rules.message_received(stop_for(Stop::Reason::signal), BootTime{10s});
  CHECK(line_of(rules.message_received(stop_for(Stop::Reason::lost), BootTime{20s})).empty());
  CHECK(line_of(rules.time_passed({BootTime{24s} - 1ns, k_deadline})).empty());
  CHECK(line_of(rules.time_passed({BootTime{24s}, k_deadline})) == "kill_tree");
  CHECK(rules.tree_killed(true).front().message.detail == k_job_killed);
}

TEST_CASE("a job that ends while it is stopped hands the signal on to what it leaves, which is then killed",
          "[safety]") {
  GuardianRules rules = guard();
  rules.message_received({MessageType::stop, SIGTERM}, BootTime{10s});
  CHECK(line_of(rules.job_ended(k_exited, 0)) == "tell job_exited, stop_leftovers 15");
  CHECK(line_of(rules.children_waited_for(false, BootTime{11s})).empty());
  CHECK(line_of(rules.time_passed({BootTime{14s}, k_deadline})) == "kill_tree");
  CHECK(rules.tree_killed(true).front().message.detail == k_leftovers_killed);  // the job itself had ended
}

TEST_CASE("the tree is dead when waitpid says so, and not before", "[safety]") {
  GuardianRules rules = guard_leftovers(Leftovers::wait);
  CHECK(line_of(rules.children_waited_for(false, BootTime{10s})).empty());
  CHECK(rules.watching());
  CHECK(line_of(rules.children_waited_for(true, BootTime{11s})) == "tell done");
  CHECK_FALSE(rules.watching());
  CHECK(
      line_of(guard().children_waited_for(true, BootTime{10s})).empty());  // the job has not been waited for
}

TEST_CASE("a tree that could not be killed is reported as alive", "[safety]") {
  GuardianRules rules = guard();
  CHECK(rules.tree_killed(false).front().message.value == 0);
}

TEST_CASE("each way with leftovers: wait, kill, leave, or look who is in the job's session") {
  const auto next = [](Leftovers leftovers) {
    GuardianRules rules = guard_leftovers(leftovers);
    return line_of(rules.children_waited_for(false, BootTime{10s}));
  };
  CHECK(next(Leftovers::wait).empty());
  CHECK(next(Leftovers::kill) == "stop_leftovers 15");
  CHECK(next(Leftovers::leave) == "look");
  CHECK(next(Leftovers::automatic) == "look");
  const std::vector<ProcessInfo> left{process_in(k_session, "child")};
  CHECK(line_of(guard_leftovers(Leftovers::leave).tree_seen(left)) == "tell left_behind, tell done");
  CHECK(line_of(guard_leftovers(Leftovers::automatic).tree_seen(left)).empty());
}

TEST_CASE("leftovers in the job's session are waited for, and daemons are named and left after three looks",
          "[safety]") {
  GuardianRules rules = guard_leftovers();
  const ProcessInfo daemon = process_in(200, "daemon", 102);
  CHECK(line_of(rules.tree_seen({process_in(k_session, "child"), daemon})).empty());
  CHECK(rules.wake_at(BootTime{10s}) == BootTime{10s} + 20ms);  // ever more rarely
  CHECK(line_of(rules.tree_seen({daemon})).empty());
  CHECK(line_of(rules.tree_seen({daemon})).empty());
  const auto told =
      rules.tree_seen({daemon, process_in(300, "dblock-keeper"), process_in(300, "dblock-hooks")});
  CHECK(line_of(told) == "tell left_behind, tell done");
  CHECK(std::string(told.front().message.text.data()) == "daemon (102)");
  CHECK(rules.at_death().end->left_behind == std::vector<std::string>{"daemon (102)"});
}

TEST_CASE("a process that has just ended may have left a child, so it keeps the guardian looking",
          "[safety]") {
  GuardianRules rules = guard_leftovers();
  const ProcessInfo ended = process_in(k_session, "child", 101, 'X');
  CHECK(line_of(rules.tree_seen({ended})).empty());  // news: begins anew
  CHECK(line_of(rules.tree_seen({ended})).empty());
  CHECK(line_of(rules.tree_seen({ended})).empty());
  CHECK(line_of(rules.tree_seen({ended})) == "tell done");
}

TEST_CASE("after dblock's death the lock is released when the tree is dead, and never before", "[safety]") {
  GuardianRules rules = guard();
  CHECK(line_of(rules.dblock_died()) == "kill_tree");
  CHECK(line_of(rules.tree_killed(true)) == "tell done, release, end");
  GuardianRules unkillable = guard();
  unkillable.dblock_died();
  CHECK(line_of(unkillable.tree_killed(false)) == "tell done, end");
  GuardianRules finished = guard_leftovers();
  finished.children_waited_for(true, BootTime{10s});
  CHECK(line_of(finished.dblock_died()) == "release, end");
  GuardianRules jobless = guard_leftovers();
  CHECK(line_of(jobless.dblock_died()) == "kill_tree");
}

// Only then dblock would have recorded it: what the guardian kills after dblock's death was abandoned.
TEST_CASE("the guardian tells how the job ended if all of it had ended before dblock's death, and else not") {
  GuardianRules finished = guard_leftovers();
  CHECK_FALSE(finished.at_death().end);
  finished.children_waited_for(true, BootTime{10s});
  finished.dblock_died();
  REQUIRE(finished.at_death().end);
  CHECK(finished.at_death().end->status == ExitStatus{false, 3});
  CHECK(finished.at_death().end->tree_dead);
  CHECK_FALSE(finished.at_death().end->stop);

  GuardianRules killed = guard();
  killed.dblock_died();
  killed.job_ended(SIGKILL, 0);
  killed.tree_killed(true);
  CHECK_FALSE(killed.at_death().end);
  GuardianRules cut_off = guard_leftovers();
  cut_off.dblock_died();
  cut_off.tree_killed(true);
  CHECK_FALSE(cut_off.at_death().end);
}

TEST_CASE("the guardian knows why the job was stopped, and when dblock had the lock at the latest") {
  using Reason = Stop::Reason;
  const auto ended = [](GuardianRules& rules, int exec_errno = 0) {
    rules.job_ended(k_exited, exec_errno);
    rules.children_waited_for(true, BootTime{98s});
    return rules.at_death().end.value();
  };
  GuardianRules stopped = guard();
  CHECK_FALSE(stopped.at_death().guarded_since);
  stopped.message_received({MessageType::guard}, BootTime{5s});
  CHECK(stopped.at_death().guarded_since == BootTime{5s});
  stopped.message_received({MessageType::stop, SIGTERM, static_cast<int>(Reason::max_runtime)},
                           BootTime{10s});
  stopped.message_received({MessageType::stop, SIGTERM, static_cast<int>(Reason::signal)}, BootTime{11s});
  const JobEnd out_of_time = ended(stopped);
  CHECK(out_of_time.stop.reason == Reason::max_runtime);
  CHECK_FALSE(out_of_time.ctrl_c);
  GuardianRules interrupted = guard();
  interrupted.message_received({MessageType::stop, k_by_ctrl_c, static_cast<int>(Reason::signal)},
                               BootTime{10s});
  CHECK(ended(interrupted).ctrl_c);
  GuardianRules fenced = guard();
  fenced.time_passed({BootTime{95s}, k_deadline});
  CHECK(ended(fenced).stop.reason == Reason::self_fence);
  GuardianRules too_late = guard();
  const JobEnd unstarted = ended(too_late, k_deadline_too_near);
  CHECK(unstarted.stop.reason == Reason::self_fence);
  CHECK_FALSE(unstarted.status);
}

// What freezes dblock leaves it alive, and the lease unrenewed: the deadline alone decides.
TEST_CASE(
    "a dblock that is frozen is no dead one: the job is stopped at its deadline and nothing is released",
    "[safety]") {
  GuardianRules rules = guard();
  CHECK(line_of(rules.time_passed({BootTime{99s}, k_deadline})) == "stop_job 15, tell fencing, kill_tree");
  CHECK(line_of(rules.tree_killed(true)) == "tell done");
}

TEST_CASE("a dismissed guardian takes a job that is still behind its gate along", "[safety]") {
  CHECK(line_of(guard().message_received({MessageType::dismiss}, BootTime{1s})) == "kill_job, end");
  CHECK(line_of(guard_leftovers().message_received({MessageType::dismiss}, BootTime{1s})) == "end");
}

TEST_CASE("a guardian that could fork no job says why, watches nothing and still releases for a dead dblock",
          "[safety]") {
  GuardianRules rules(JobSpec{}, k_session);
  const auto told = rules.job_forked(-EAGAIN, 1);
  CHECK(line_of(told) == "tell ready");
  CHECK(told.front().message.value == -EAGAIN);
  CHECK(line_of(rules.time_passed({BootTime{200s}, k_deadline})).empty());
  CHECK_FALSE(rules.wake_at(BootTime{200s}));
  CHECK(line_of(rules.message_received({MessageType::stop, SIGTERM}, BootTime{1s})).empty());
  CHECK(line_of(rules.dblock_died()) == "kill_tree");
  CHECK(line_of(rules.tree_killed(true)) == "tell done, release, end");
}

TEST_CASE("dblock is told that the job's program has been executed, while the job runs") {
  CHECK(line_of(guard().job_executed()) == "tell job_started");
  CHECK(line_of(guard_leftovers().job_executed()).empty());
}

TEST_CASE("a suspended job is continued, unless it waits for the terminal and nobody stops it") {
  CHECK(line_of(guard().job_stopped(SIGSTOP)) == "continue_job, tell job_stopped");
  CHECK(line_of(guard().job_stopped(SIGTSTP)) == "continue_job, tell job_stopped");
  GuardianRules rules = guard();
  CHECK(line_of(rules.job_stopped(SIGTTIN)) == "tell job_stopped");
  CHECK(line_of(rules.message_received({MessageType::continue_job}, BootTime{1s})) == "continue_job");
  rules.message_received({MessageType::stop, SIGTERM}, BootTime{1s});
  CHECK(line_of(rules.job_stopped(SIGTTOU)) == "continue_job, tell job_stopped");
}

TEST_CASE("after Ctrl-Z the group's members are looked after for a second, at every twentieth of it") {
  GuardianRules rules = guard();
  rules.message_received({MessageType::continue_group}, BootTime{10s});
  CHECK(line_of(rules.time_passed({BootTime{10s}, {}})) == "continue_stopped");
  CHECK(line_of(rules.time_passed({BootTime{10s} + 1ms, {}})).empty());
  CHECK(rules.wake_at(BootTime{10s}) == BootTime{10s} + 50ms);
  CHECK(line_of(rules.time_passed({BootTime{10s} + 50ms, {}})) == "continue_stopped");
  CHECK(line_of(rules.time_passed({BootTime{11s}, {}})).empty());
  CHECK_FALSE(rules.wake_at(BootTime{11s}));
}

TEST_CASE("signals are forwarded to the job while it runs, and to nobody who got its number later") {
  CHECK(line_of(guard().message_received({MessageType::forward, SIGUSR1}, BootTime{1s})) ==
        "signal_job " + std::to_string(SIGUSR1));
  CHECK(line_of(guard_leftovers().message_received({MessageType::forward, SIGUSR1}, BootTime{1s})).empty());
  CHECK(line_of(guard_leftovers().message_received({MessageType::continue_job}, BootTime{1s})).empty());
}

}  // namespace dblock::process
