#include "app/words/ending.hpp"

#include <cerrno>
#include <csignal>

#include "app/requests.hpp"
#include "app/run/status_file.hpp"
#include "support/catch.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using process::ExitStatus;
using process::JobEnd;
using process::Stop;
using Reason = Stop::Reason;
using How = Ending::How;

int exit_code_of(const Ending& ending) {
  return outcome_of(ending).exit.code;
}

RunRequest request_for_a_run() {
  RunRequest request{.key = *lease::Key::parse("k")};
  request.command = {"job"};
  request.max_runtime = 5s;
  return request;
}

Ending ending_of(const JobEnd& end) {
  return ending_of(end, request_for_a_run());
}

bool document_says(const Stop& stop, const std::string& words) {
  return status_document({}, {.stop = stop}).find(words) != std::string::npos;
}

TEST_CASE("every ending has a sentence") {
  CHECK(describe_end({}, "lock \"k\"") == "the job under lock \"k\" has succeeded");
  CHECK(describe_end({.how = How::job_exited, .number = 3}, "lock \"k\"") ==
        "the job under lock \"k\" failed with exit status 3");
  CHECK(describe_end({.how = How::job_signalled, .number = 9}, "lock \"k\"") ==
        "the job under lock \"k\" was killed by SIGKILL");
  CHECK(describe_end({.how = How::lost, .message = "gone"}, "lock \"k\"") == "gone");
}

TEST_CASE("each reason for a stop has a word of its own in the status file") {
  CHECK(document_says({}, "\"stop\": null"));
  const std::vector<std::pair<Reason, std::string>> words{
      {Reason::signal, "signal"},     {Reason::parent, "parent-ended"}, {Reason::self_fence, "deadline"},
      {Reason::revoked, "revoked"},   {Reason::lost, "lost"},           {Reason::max_runtime, "max-runtime"},
      {Reason::guardian, "guardian"},
  };
  for (const auto& [why, word] : words)
    CHECK(document_says({.reason = why, .signal = SIGTERM}, "\"reason\": \"" + word + "\""));
}

TEST_CASE("only a sender that the kernel names is named") {
  CHECK(document_says({.reason = Reason::signal, .signal = SIGTERM}, "\"who\": null"));
  const Stop of_root{.reason = Reason::signal, .signal = SIGTERM, .pid = 5};
  CHECK(document_says(of_root, "\"pid\": 5"));
  CHECK(document_says(of_root, "\"uid\": 0"));
  const Stop of_parent{.reason = Reason::parent, .signal = SIGTERM, .pid = 5};
  CHECK(document_says(of_parent, "\"pid\": 5"));
  CHECK(document_says(of_parent, "\"uid\": null"));
}

TEST_CASE("a run ends as its job does, unless it was stopped for a reason of dblock's own") {
  CHECK(ending_of({.started = true, .status = ExitStatus{false, 0}}).how == How::success);
  CHECK(ending_of({.started = true, .status = ExitStatus{false, 3}}).how == How::job_exited);
  CHECK(ending_of({.started = true, .status = ExitStatus{false, 3}}).number == 3);
  CHECK(ending_of({.started = true, .status = ExitStatus{true, 9}}).how == How::job_signalled);
  const ExitStatus done{false, 0};
  const Stop term{.reason = Reason::signal, .signal = SIGTERM};
  CHECK(ending_of({.started = true, .status = done, .stop = term}).how == How::success);
  const auto stopped = [&](Reason reason) {
    return ending_of({.started = true, .status = done, .stop = {.reason = reason}});
  };
  CHECK(stopped(Reason::max_runtime).how == How::timed_out);
  CHECK(exit_code_of(stopped(Reason::guardian)) == 70);
}

TEST_CASE("a job that never ran ends the run with the reason") {
  CHECK(exit_code_of(ending_of({.status = ExitStatus{false, 126}, .exec_errno = EACCES})) == 126);
  CHECK(exit_code_of(ending_of({.fork_errno = EAGAIN})) == 70);
  const Ending stopped = ending_of({.stop = {.reason = Reason::signal, .signal = SIGHUP}});
  CHECK(stopped.how == How::interrupted);
  CHECK(stopped.number == SIGHUP);
  CHECK(ending_of(JobEnd{}).number == SIGKILL);
  CHECK(ending_of({.stop = {.reason = Reason::guardian}}).how == How::failed);
}

TEST_CASE("only a stop for the lease makes a run end with its loss, whatever the job returned") {
  for (const Reason reason : {Reason::self_fence, Reason::lost})
    CHECK(ending_of({.started = true, .status = ExitStatus{false, 0}, .stop = {.reason = reason}}).how ==
          How::lost);
  const Ending lost =
      lost_ending({.started = true, .status = ExitStatus{false, 0}, .tree_dead = true}, "it is");
  CHECK(exit_code_of(lost) == 76);
  CHECK(lost.message.starts_with("it is; the job had ended by then; see "));
}

TEST_CASE("the row remembers how the run ended, with its exit code where a job ran") {
  struct Fact {
    JobEnd end;
    lease::RunOutcome row;
    std::optional<int> code;
  };
  using enum lease::RunOutcome;
  const ExitStatus killed{true, SIGKILL}, cannot_run{false, 126};
  const Stop term{.reason = Reason::signal, .signal = SIGTERM}, limit{.reason = Reason::max_runtime},
      unguarded{.reason = Reason::guardian}, loss{.reason = Reason::lost};
  const std::vector<Fact> facts{
      {{.started = true, .status = ExitStatus{false, 0}}, succeeded, 0},
      {{.started = true, .status = ExitStatus{false, 3}}, failed, 3},
      {{.started = true, .status = killed}, signalled, 137},
      {{.started = true, .status = killed, .stop = limit}, timed_out, 124},
      {{.started = true, .status = killed, .stop = unguarded}, signalled, 70},
      {{.started = true, .status = ExitStatus{false, 0}, .stop = unguarded}, signalled, 70},
      {{.started = true, .status = killed, .stop = loss}, lost, 76},
      {{.started = true, .stop = term}, signalled, 137},
      {{.started = true, .stop = unguarded}, signalled, 70},
      {{.started = true, .status = killed, .stop = term, .ctrl_c = true}, signalled, 130},
      {{.started = true, .status = ExitStatus{true, SIGTERM}, .stop = term, .ctrl_c = true}, signalled, 143},
      {{.stop = loss}, lost, 76},
      {{.started = true, .status = killed, .stop = {.reason = Reason::revoked}}, lost, 76},
      {{.stop = term}, not_run, {}},
      {{.stop = unguarded}, not_run, {}},
      {{.status = killed, .stop = term}, not_run, {}},
      {{.status = cannot_run, .exec_errno = ENOENT}, not_run, {}},
      {{.status = cannot_run, .stop = limit, .exec_errno = ENOENT}, not_run, {}},
      {{.fork_errno = EAGAIN}, not_run, {}},
  };
  for (const Fact& fact : facts) {
    const Ending ending = ending_of(fact.end);
    CAPTURE(&fact - facts.data());
    const lease::RunEnd row = row_end(ending);
    CHECK(row.outcome == fact.row);
    CHECK(row.exit_code == fact.code);
    if (fact.code) CHECK(exit_code_of(ending) == *fact.code);
  }
}

TEST_CASE("the words about a stop say what became of the job") {
  JobEnd end{.status = ExitStatus{true, SIGKILL},
             .stop = {.reason = Reason::signal,
                      .signal = SIGTERM,
                      .pid = 12,
                      .uid = 4'000'000'000U,
                      .killed = true,
                      .took = 4s}};
  CHECK(describe_stop(end) ==
        "asked to stop by TERM from pid 12 (user 4000000000): the job got TERM, had not ended 4s later, "
        "and was killed; --stop-grace gives it longer");
  const std::string kill = " (it had not ended 4s after TERM and was killed";
  CHECK(describe_kill(end.stop) == kill + "; --stop-grace gives it longer)");
  end.stop.reason = Reason::self_fence;
  CHECK(describe_kill(end.stop) == kill + ")");
  end.stop.signal = SIGKILL;  // --signal KILL: there was nothing to heed
  CHECK(describe_kill(end.stop).empty());
  end.stop = {.reason = Reason::parent, .signal = SIGTERM, .pid = 12, .took = 4s};
  CHECK(
      describe_stop(end) ==
      "asked to stop since the process that started dblock (pid 12) has ended: the job got TERM and ended 4s "
      "later");
  CHECK(describe_kill(end.stop).empty());
  const std::string stopped = describe_stop(end);
  end.leftovers_took = 2s;
  CHECK(describe_stop(end) == stopped + "; what it left running ended 2s later");
  end.stop.late = true;
  CHECK(describe_stop(end).ends_with(": the job had ended by then, and what it left running was stopped"));
  end.stop.late = false;
  end.leftovers_took = 4s;
  end.leftovers_killed = true;
  CHECK(describe_stop(end) == stopped + "; what it left running went on for 4s and was killed");
  CHECK_THAT(
      lost_ending({.started = true, .stop = {.reason = Reason::lost}, .leftovers_took = 2s}, "it is").message,
      Catch::StartsWith("it is; the job was stopped; what it left running ended 2s later"));
}

}  // namespace
}  // namespace dblock::app
