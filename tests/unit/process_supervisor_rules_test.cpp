// What dblock decides while it supervises a job, without a process: events in, actions out, time as a value.
#include "process/supervisor_rules.hpp"

#include <csignal>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "unit/long_stop.hpp"

namespace dblock::process {
namespace {

using namespace std::chrono_literals;
using Reason = Stop::Reason;

constexpr Moment k_early{BootTime{10s}, BootTime{100s}};

Moment second(int seconds) {
  return {BootTime{std::chrono::seconds(seconds)}, k_early.deadline};
}

// With a grace of 4 s and a slack of 1 s: the guardian signals at 95 s and kills at 99 s.
SupervisorRules supervise_rules() {
  JobSpec spec;
  spec.kill_grace = 4s;
  spec.slack = 1s;
  return SupervisorRules(spec);
}

SupervisorRules running(std::optional<Nanos> max_runtime = {}) {
  SupervisorRules rules = supervise_rules();
  rules.set_max_runtime(max_runtime);
  rules.message_received({MessageType::ready, 100}, k_early);
  return rules;
}

// The same with a stop grace of ten minutes.
SupervisorRules long_to_stop() {
  SupervisorRules rules(long_to_stop_spec());
  rules.message_received({MessageType::ready, 100}, k_early);
  return rules;
}

// The actions in a line: "tell stop 15, tell_loss".
std::string words_of(const SupervisorRules::Actions& actions) {
  static const std::vector<std::string> acts{
      "tell",      "open_gate",        "tell_start",    "start_guardian", "tell_loss",   "tell_overdue",
      "kill_tree", "look_at_terminal", "say_continued", "say_leftovers",  "say_stopping"};
  static const std::vector<std::string> words{"guard",        "forward",        "stop",
                                              "continue_job", "continue_group", "dismiss"};
  std::string line;
  for (const SupervisorAction& action : actions) {
    line += (line.empty() ? "" : ", ") + acts.at(static_cast<std::size_t>(action.kind));
    if (action.kind != SupervisorAction::Kind::tell) continue;
    line += " " + words.at(static_cast<std::size_t>(action.message.type));
    if (action.message.value != 0) line += " " + std::to_string(action.message.value);
  }
  return line;
}

Stop sent(int number, bool by_terminal = false) {
  return {.reason = Reason::signal, .signal = number, .from_terminal = by_terminal};
}

int killed_by(int number) {
  return number;  // the wait status
}

}  // namespace

TEST_CASE("the gate opens for a job that has time left, after the guardian was told to watch the deadline",
          "[safety]") {
  SupervisorRules rules = supervise_rules();
  CHECK(words_of(rules.message_received({MessageType::ready, 100}, k_early)) == "tell guard, open_gate");
  CHECK(rules.end().started);
  CHECK_FALSE(rules.over());
}

TEST_CASE("the gate stays closed when the deadline leaves no room for a stop", "[safety]") {
  SupervisorRules rules = supervise_rules();
  CHECK(words_of(rules.message_received({MessageType::ready, 100}, second(95))).empty());
  CHECK(rules.over());
  CHECK_FALSE(rules.end().started);
  CHECK(rules.end().tree_dead);
  CHECK(rules.end().stop.reason == Reason::self_fence);
}

TEST_CASE("the gate stays closed when a stop has come since the wait for the lock ended", "[safety]") {
  SupervisorRules rules = supervise_rules();
  CHECK(words_of(rules.signalled(sent(SIGTERM), false, k_early)) == "tell stop 15");
  CHECK(words_of(rules.message_received({MessageType::ready, 100}, k_early)).empty());
  CHECK(rules.over());
  CHECK_FALSE(rules.end().started);
  CHECK(rules.end().stop.reason == Reason::signal);
}

TEST_CASE("a job for which there is no process ends the run with the reason") {
  SupervisorRules rules = supervise_rules();
  CHECK(words_of(rules.message_received({MessageType::ready, -EAGAIN}, k_early)).empty());
  CHECK(rules.over());
  CHECK(rules.end().fork_errno == EAGAIN);
  CHECK(rules.end().tree_dead);
}

TEST_CASE("a job that ends by itself keeps its status, and the run goes on until the tree is dead",
          "[safety]") {
  SupervisorRules rules = running();
  rules.message_received({MessageType::job_exited, 3 << 8}, second(20));
  CHECK_FALSE(rules.over());
  rules.message_received({MessageType::done, 1}, second(30));
  CHECK(rules.over());
  CHECK(rules.end().status == ExitStatus{false, 3});
  CHECK(rules.end().tree_dead);
  CHECK_FALSE(rules.end().stop);
}

TEST_CASE("the guardian's last word alone tells that the deadline stopped the job", "[safety]") {
  SupervisorRules rules = running();
  rules.message_received({MessageType::job_exited, SIGTERM}, second(20));
  rules.message_received({MessageType::done, 1, k_fenced}, second(30));
  CHECK(rules.end().stop.reason == Stop::Reason::self_fence);
  CHECK_FALSE(rules.end().stop.killed);
}

TEST_CASE("a tree that is not dead is not reported as dead", "[safety]") {
  SupervisorRules rules = running();
  rules.message_received({MessageType::done, 0}, second(30));
  CHECK(rules.over());
  CHECK_FALSE(rules.end().tree_dead);
}

TEST_CASE("a program that cannot be executed, or comes too late, never started", "[safety]") {
  SupervisorRules rules = running();
  rules.message_received({MessageType::job_exited, 126 << 8, ENOENT}, second(11));
  CHECK_FALSE(rules.end().started);
  CHECK(rules.end().exec_errno == ENOENT);
  SupervisorRules late = running();
  late.message_received({MessageType::job_exited, 126 << 8, k_deadline_too_near}, second(96));
  CHECK_FALSE(late.end().started);
  CHECK_FALSE(late.end().status);
  CHECK(late.end().stop.reason == Reason::self_fence);
}

TEST_CASE(
    "the start is told when the program has been executed, or with the end of a short job, and else not") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.message_received({MessageType::job_started}, k_early)) == "tell_start");
  CHECK(words_of(running().message_received({MessageType::job_exited, 3 << 8}, k_early)) == "tell_start");
  for (const int why : {ENOENT, k_deadline_too_near})
    CHECK(words_of(running().message_received({MessageType::job_exited, 126 << 8, why}, k_early)).empty());
}

TEST_CASE("the first stop gives the reason, and each is passed on to the guardian") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.signalled(sent(SIGTERM), false, second(20))) == "tell stop 15");
  CHECK(words_of(rules.signalled(sent(SIGHUP), false, second(21))) == "tell stop 1");
  CHECK(rules.signalled(sent(SIGHUP), false, second(21)).front().message.detail ==
        static_cast<int>(Reason::signal));
  rules.message_received({MessageType::job_exited, killed_by(SIGTERM)}, second(23));
  CHECK(rules.end().stop.signal == SIGTERM);
  CHECK(rules.end().stop.took == 3s);
  CHECK_FALSE(rules.end().stop.late);
}

TEST_CASE(
    "leftovers that live on are named after 5 s and then every minute, and their time counts from the job's "
    "end "
    "or the later stop") {
  const auto ended = [](SupervisorRules& rules, int at, int detail = 0) {
    rules.message_received({MessageType::done, 1, detail}, second(at));
    return std::pair(rules.end().leftovers_took, rules.end().leftovers_killed);
  };
  SupervisorRules rules = running();
  rules.message_received({MessageType::job_exited, 0}, second(20));
  CHECK(rules.wake_at(k_early.deadline) == BootTime{25s});
  CHECK(words_of(rules.time_passed({BootTime{25s} - 1ns, k_early.deadline})).empty());
  CHECK(words_of(rules.time_passed(second(25))) == "say_leftovers");
  CHECK(words_of(rules.time_passed(second(84))).empty());
  CHECK(words_of(rules.time_passed(second(85))) == "say_leftovers");
  CHECK(ended(rules, 86) == std::pair(Nanos{66s}, false));

  SupervisorRules stopped = running();
  stopped.message_received({MessageType::job_exited, 0}, second(20));
  stopped.signalled(sent(SIGTERM), false, second(30));
  CHECK(ended(stopped, 34, k_leftovers_killed) == std::pair(Nanos{4s}, true));

  SupervisorRules prompt = running();
  prompt.message_received({MessageType::job_exited, 0}, second(20));
  CHECK(ended(prompt, 20) == std::pair(Nanos{0}, false));
}

TEST_CASE("a job that takes long to stop is spoken of after 5 s and then every minute, until it has ended",
          "[safety]") {
  SupervisorRules rules = long_to_stop();
  const BootTime deadline{10000s};
  const auto said = [&](int at) {
    return words_of(rules.time_passed({BootTime{std::chrono::seconds(at)}, deadline}));
  };
  rules.signalled(sent(SIGTERM), false, second(20));
  CHECK(rules.wake_at(deadline) == BootTime{25s});
  CHECK(said(24).empty());
  CHECK(said(25) == "say_stopping");
  CHECK(rules.grace_ends_at() == BootTime{620s});
  rules.signalled(sent(SIGTERM), false, second(30));  // a second one changes nothing
  CHECK(said(84).empty());
  CHECK(said(85) == "say_stopping");
  rules.message_received({MessageType::job_exited, 0}, second(90));
  CHECK(said(94).empty());
  CHECK(said(95) == "say_leftovers");
}

TEST_CASE("a lease that is lost during a long stop shortens it, and the guardian is told", "[safety]") {
  SupervisorRules rules = long_to_stop();
  rules.signalled(sent(SIGTERM), false, second(20));
  const auto told = rules.lease_lost(Reason::lost, second(50));
  CHECK(words_of(told) == "tell stop 15, tell_loss");
  CHECK(told.front().message.detail == static_cast<int>(Reason::lost));
  CHECK(rules.grace_ends_at() == BootTime{54s});
  CHECK(rules.end().stop.reason == Reason::signal);
}

TEST_CASE("a stop that the end of the lease cut short is a lost lease, whoever asked for it", "[safety]") {
  for (const Reason asked : {Reason::signal, Reason::max_runtime}) {
    SupervisorRules rules = long_to_stop();
    Stop stop = sent(SIGTERM);
    stop.reason = asked;
    rules.signalled(stop, false, second(20));
    rules.message_received({MessageType::job_exited, killed_by(SIGKILL)}, second(99));
    rules.message_received({MessageType::done, 1, k_job_killed | k_fenced}, second(99));
    CHECK(rules.end().stop.reason == Reason::self_fence);
    CHECK(rules.end().stop.took == 79s);
  }
  SupervisorRules frozen_guardian = long_to_stop();
  frozen_guardian.signalled(sent(SIGTERM), false, second(20));
  CHECK(words_of(frozen_guardian.time_passed({BootTime{25s}, k_early.deadline})) == "say_stopping");
  CHECK(words_of(frozen_guardian.time_passed(second(99))).find("kill_tree") == std::string::npos);
  CHECK_THAT(words_of(frozen_guardian.time_passed({BootTime{99s} + 500ms, k_early.deadline})),
             Catch::EndsWith("tell_loss, kill_tree"));
  CHECK(frozen_guardian.end().stop.reason == Reason::self_fence);
}

TEST_CASE("a stop after the job's end is for its leftovers") {
  SupervisorRules rules = running();
  rules.message_received({MessageType::job_exited, 0}, second(20));
  rules.signalled(sent(SIGTERM), false, second(21));
  CHECK(rules.end().stop.late);
}

TEST_CASE(
    "signals that stop nothing are forwarded, but not those that the terminal has sent to the job too") {
  SupervisorRules rules = running();
  for (const int number : {SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH}) {
    CHECK(words_of(rules.signalled(sent(number), false, second(20))) ==
          "tell forward " + std::to_string(number));
    CHECK(words_of(rules.signalled(sent(number, true), false, second(20))).empty());
  }
  CHECK_FALSE(rules.end().stop);
}

TEST_CASE("Ctrl-C begins the grace without a second signal") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.signalled(sent(SIGINT, true), false, second(20))) == "tell stop");
  CHECK(rules.end().ctrl_c);
  CHECK(rules.end().stop.from_terminal);
  SupervisorRules prompt = running();  // reads key by key
  CHECK(words_of(prompt.signalled(sent(SIGINT, true), true, second(20))).empty());
  CHECK_FALSE(prompt.end().stop);
  CHECK_FALSE(prompt.end().ctrl_c);
}

TEST_CASE("a lost lease stops the job, and whoever must know is told", "[safety]") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.lease_lost(Reason::lost, second(20))) == "tell stop 15, tell_loss");
  CHECK(rules.end().stop.reason == Reason::lost);
}

TEST_CASE("a self-fence stays one, whatever else asks for a stop while it goes on", "[safety]") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.message_received({MessageType::fencing}, second(95))) == "tell_loss");
  rules.signalled(sent(SIGTERM), false, second(96));
  rules.message_received({MessageType::job_exited, killed_by(SIGKILL)}, second(99));
  rules.message_received({MessageType::done, 1, k_job_killed}, second(99));
  CHECK(rules.end().stop.reason == Reason::self_fence);
  CHECK(rules.end().stop.killed);
  CHECK(rules.end().stop.took == 4s);
}

TEST_CASE("max-runtime counts from the job's start and is heard once") {
  SupervisorRules rules = running(5s);
  CHECK(rules.wake_at(k_early.deadline) == BootTime{15s});
  CHECK(words_of(rules.time_passed(second(14))).empty());
  CHECK(words_of(rules.time_passed(second(15))) == "tell stop 15");
  CHECK(words_of(rules.time_passed(second(16))).empty());
  CHECK(rules.end().stop.reason == Reason::max_runtime);
}

TEST_CASE("a job is overdue once, from its start on, and goes on") {
  SupervisorRules rules = supervise_rules();
  rules.set_expected(5s);
  CHECK(words_of(rules.time_passed(second(9))).empty());
  rules.message_received({MessageType::ready, 100}, k_early);
  CHECK(rules.wake_at(k_early.deadline) == BootTime{15s});
  CHECK(words_of(rules.time_passed(second(14))).empty());
  CHECK(words_of(rules.time_passed(second(15))) == "tell_overdue");
  CHECK(rules.wake_at(k_early.deadline) > BootTime{15s});
  CHECK(words_of(rules.time_passed(second(16))).empty());
  CHECK_FALSE(rules.end().stop);
}

TEST_CASE("a job that is being stopped is not overdue") {
  SupervisorRules rules = supervise_rules();
  rules.set_expected(5s);
  rules.message_received({MessageType::ready, 100}, k_early);
  rules.signalled(sent(SIGTERM), false, second(14));
  CHECK(words_of(rules.time_passed(second(15))).empty());
}

TEST_CASE("the end of the process that started dblock is a TERM that tells its pid") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.parent_ended(77, second(20))) == "tell stop 15");
  CHECK(rules.end().stop.reason == Reason::parent);
  CHECK(rules.end().stop.pid == 77);
}

TEST_CASE("dblock kills in the guardian's place a second after the grace has ended", "[safety]") {
  SupervisorRules rules = running();
  rules.signalled(sent(SIGTERM), false, second(20));
  CHECK(rules.wake_at(k_early.deadline) == BootTime{25s});
  CHECK(words_of(rules.time_passed({BootTime{25s} - 1ns, k_early.deadline})).empty());
  CHECK(words_of(rules.time_passed(second(25))) == "kill_tree");
  rules.tree_killed(true);
  CHECK(rules.over());
  CHECK(rules.end().stop.reason == Reason::signal);
  CHECK(rules.end().stop.killed);
  CHECK(rules.end().stop.took == 5s);
}

TEST_CASE("dblock kills in the guardian's place half of the slack before the deadline", "[safety]") {
  SupervisorRules rules = running();
  CHECK(rules.wake_at(k_early.deadline) == BootTime{99s} + 500ms);
  CHECK(words_of(rules.time_passed(second(99))).empty());
  CHECK(words_of(rules.time_passed({BootTime{99s} + 500ms, k_early.deadline})) == "tell_loss, kill_tree");
  CHECK(rules.end().stop.reason == Reason::self_fence);
}

TEST_CASE("a renewal moves the time at which dblock kills in the guardian's place", "[safety]") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.time_passed({BootTime{150s}, BootTime{300s}})).empty());
  CHECK(rules.wake_at(BootTime{300s}) == BootTime{299s} + 500ms);
}

TEST_CASE("a dead guardian's job is killed at once, and its own wait tells how it ended", "[safety]") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.guardian_died(second(20))) == "kill_tree");
  rules.job_waited_for(killed_by(SIGKILL));
  rules.tree_killed(false);
  CHECK(rules.end().stop.reason == Reason::guardian);
  CHECK(rules.end().stop.killed);
  CHECK(rules.end().status == ExitStatus{true, SIGKILL});
  CHECK_FALSE(rules.end().tree_dead);
  SupervisorRules late = running();
  CHECK(words_of(late.guardian_died(second(96))) == "tell_loss, kill_tree");
  CHECK(late.end().stop.reason == Reason::self_fence);
}

TEST_CASE("what the guardian has said of the job's end stays when it dies afterwards", "[safety]") {
  SupervisorRules rules = running();
  rules.message_received({MessageType::job_exited, 3 << 8}, second(20));
  rules.guardian_died(second(21));
  rules.job_waited_for(killed_by(SIGKILL));
  CHECK(rules.end().status == ExitStatus{false, 3});
  CHECK_FALSE(rules.end().stop.killed);
}

TEST_CASE("that a suspended job was continued is said once") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.message_received({MessageType::job_stopped, SIGSTOP}, second(20))) == "say_continued");
  CHECK(words_of(rules.message_received({MessageType::job_stopped, SIGSTOP}, second(21))).empty());
  CHECK(words_of(rules.signalled(sent(SIGTSTP, true), false, second(22))) == "tell continue_group");
  CHECK(words_of(running().signalled(sent(SIGTSTP, true), false, second(22))) ==
        "tell continue_group, say_continued");
  CHECK(words_of(rules.signalled(sent(SIGTSTP), false, second(23))).empty());
}

TEST_CASE(
    "a job that waits for the terminal is resumed when the terminal is ours, looked at five times a second") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.message_received({MessageType::job_stopped, SIGTTIN}, second(20))).empty());
  CHECK(rules.wake_at({}) == BootTime{20s} + 200ms);
  CHECK(words_of(rules.time_passed(second(21))) == "look_at_terminal");
  CHECK(words_of(rules.terminal_seen(false, second(21))).empty());
  CHECK(rules.wake_at({}) == BootTime{21s} + 200ms);
  rules.time_passed(second(22));
  CHECK(words_of(rules.terminal_seen(true, second(22))) == "tell continue_job");
  CHECK_FALSE(rules.wake_at({}));
}

TEST_CASE("daemons that were left are named") {
  SupervisorRules rules = running();
  rules.message_received(Message::with_text(MessageType::left_behind, "d (7)"), second(20));
  CHECK(rules.end().left_behind == std::vector<std::string>{"d (7)"});
}

// In the pause after an attempt that failed at second 20, until second 30.
SupervisorRules pausing(std::optional<Nanos> max_runtime = {}) {
  SupervisorRules rules = running(max_runtime);
  rules.message_received(Message::with_text(MessageType::left_behind, "daemon (7)"), second(20));
  rules.message_received({MessageType::job_exited, 3 << 8}, second(20));
  rules.message_received({MessageType::done, 1}, second(20));
  CHECK(rules.end().failed_by_itself());
  rules.begin_pause(second(30).now);
  CHECK_FALSE(rules.over());
  return rules;
}

// The run is over as the attempt before had ended, stopped for this reason.
void check_stopped_between(const SupervisorRules& rules, Reason reason) {
  CHECK(rules.over());
  CHECK(rules.end().stopped_between);
  CHECK(rules.end().stop.reason == reason);
  CHECK(rules.end().status == ExitStatus{false, 3});
  CHECK(rules.end().tree_dead);
}

TEST_CASE("a pause ends with a new guardian, whose job starts, and the last attempt's end is the run's") {
  SupervisorRules rules = pausing();
  CHECK(rules.wake_at(k_early.deadline) == second(30).now);
  CHECK(words_of(rules.time_passed(second(29))).empty());
  CHECK(words_of(rules.time_passed(second(30))) == "start_guardian");
  CHECK(words_of(rules.time_passed(second(31))).empty());
  CHECK(words_of(rules.message_received({MessageType::ready, 200}, second(31))) == "tell guard, open_gate");
  CHECK_FALSE(rules.between());
  rules.message_received({MessageType::job_exited, 4 << 8}, second(40));
  rules.message_received({MessageType::done, 1}, second(40));
  CHECK(rules.over());
  CHECK(rules.end().status == ExitStatus{false, 4});
  CHECK(rules.end().left_behind == std::vector<std::string>{"daemon (7)"});
  CHECK(rules.end().failed_by_itself());
}

TEST_CASE("the gate of a further attempt stays closed when the deadline leaves no room for a stop",
          "[safety]") {
  SupervisorRules rules = pausing();
  rules.time_passed(second(30));
  CHECK(words_of(rules.message_received({MessageType::ready, 200}, second(95))).empty());
  check_stopped_between(rules, Reason::self_fence);
}

TEST_CASE("a deadline that comes near in a pause ends it, and no guardian is started", "[safety]") {
  SupervisorRules rules = pausing();
  CHECK(rules.wake_at(second(25).now + 5s) == second(25).now);
  CHECK(words_of(rules.time_passed({second(26).now, second(30).now})) == "tell_loss");
  check_stopped_between(rules, Reason::self_fence);
  SupervisorRules late = pausing();
  CHECK(words_of(late.time_passed(second(120))) == "tell_loss");  // frozen beyond pause and deadline
  check_stopped_between(late, Reason::self_fence);
}

TEST_CASE("in a pause nobody is told that the job takes long") {
  SupervisorRules rules = supervise_rules();
  rules.set_expected(15s);
  rules.message_received({MessageType::ready, 100}, k_early);
  rules.message_received({MessageType::job_exited, 3 << 8}, second(20));
  rules.message_received({MessageType::done, 1}, second(20));
  rules.begin_pause(second(30).now);
  CHECK(words_of(rules.time_passed(second(26))).empty());
  CHECK(words_of(rules.time_passed(second(30))) == "start_guardian");
  rules.message_received({MessageType::ready, 101}, second(31));
  CHECK(words_of(rules.time_passed(second(32))) == "tell_overdue");
}

TEST_CASE("what would stop a job ends a pause at once", "[safety]") {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    SupervisorRules rules = pausing();
    rules.signalled(sent(number, true), true, second(25));
    check_stopped_between(rules, Reason::signal);
    CHECK(rules.end().stop.signal == number);
  }
  SupervisorRules lost = pausing();
  CHECK(words_of(lost.lease_lost(Reason::lost, second(25))) == "tell stop 15, tell_loss");
  check_stopped_between(lost, Reason::lost);
  SupervisorRules orphan = pausing();
  orphan.parent_ended(5, second(25));
  check_stopped_between(orphan, Reason::parent);
  SupervisorRules asked = pausing();
  asked.time_passed(second(30));
  asked.signalled(sent(SIGTERM), false, second(31));
  check_stopped_between(asked, Reason::signal);
  SupervisorRules resized = pausing();
  for (const int number : {SIGWINCH, SIGTSTP})
    CHECK(words_of(resized.signalled(sent(number, true), false, second(25))).empty());
  CHECK_FALSE(resized.over());
}

TEST_CASE("the limit of a run counts from the job's first start, through pauses") {
  SupervisorRules rules = pausing(15s);  // since second 10
  CHECK(rules.wake_at(k_early.deadline) == second(25).now);
  rules.time_passed(second(25));
  check_stopped_between(rules, Reason::max_runtime);
  SupervisorRules second_attempt = pausing(30s);
  second_attempt.time_passed(second(30));
  second_attempt.message_received({MessageType::ready, 200}, second(31));
  CHECK(words_of(second_attempt.time_passed(second(39))).empty());
  CHECK(words_of(second_attempt.time_passed(second(40))) == "tell stop 15");
  CHECK_FALSE(second_attempt.over());
}

TEST_CASE("an attempt that cannot be started leaves the run to end as the one before did") {
  const auto check = [](const SupervisorRules& rules, int why) {
    CHECK(rules.over());
    CHECK(rules.end().not_again_errno == why);
    CHECK(rules.end().status == ExitStatus{false, 3});
    CHECK_FALSE(rules.end().stop);
    CHECK_FALSE(rules.end().failed_by_itself());
  };
  SupervisorRules no_process = pausing();
  no_process.time_passed(second(30));
  no_process.message_received({MessageType::ready, -EAGAIN}, second(31));
  check(no_process, EAGAIN);
  SupervisorRules no_answer = pausing();
  no_answer.time_passed(second(30));
  CHECK(no_answer.wake_at(k_early.deadline) == second(40).now);
  no_answer.time_passed(second(40));
  check(no_answer, ETIMEDOUT);
  SupervisorRules no_program = pausing();
  no_program.time_passed(second(30));
  no_program.message_received({MessageType::ready, 200}, second(31));
  no_program.message_received({MessageType::job_exited, 126 << 8, ENOENT}, second(31));
  no_program.message_received({MessageType::done, 1}, second(31));
  check(no_program, ENOENT);
}

TEST_CASE("a job that died of a signal which came to dblock did not fail by itself") {
  SupervisorRules rules = running();
  CHECK(words_of(rules.signalled(sent(SIGUSR1), false, second(15))) == "tell forward 10");
  rules.message_received({MessageType::job_exited, SIGUSR1}, second(20));
  rules.message_received({MessageType::done, 1}, second(20));
  CHECK_FALSE(rules.end().failed_by_itself());
}

}  // namespace dblock::process
