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
  CHECK(ending_of({.status = done, .stop = {.reason = Reason::signal, .signal = SIGTERM}}).how ==
        How::success);
  CHECK(ending_of({.status = done, .stop = {.reason = Reason::max_runtime}}).how == How::timed_out);
  CHECK(exit_code_of(ending_of({.status = done, .stop = {.reason = Reason::guardian}})) == 70);
}

TEST_CASE("a job that never ran ends the run with the reason") {
  CHECK(exit_code_of(ending_of({.status = ExitStatus{false, 126}, .exec_errno = EACCES})) == 126);
  CHECK(exit_code_of(ending_of({.fork_errno = EAGAIN})) == 70);
  const Ending stopped = ending_of({.stop = {.reason = Reason::signal, .signal = SIGHUP}});
  CHECK(stopped.how == How::interrupted);
  CHECK(stopped.number == SIGHUP);
  CHECK(ending_of(JobEnd{}).number == SIGKILL);
}

TEST_CASE("only a stop for the lease makes a run end with its loss, whatever the job returned") {
  CHECK(stopped_by_loss({.stop = {.reason = Reason::self_fence}}));
  CHECK(stopped_by_loss({.stop = {.reason = Reason::lost}}));
  CHECK_FALSE(stopped_by_loss({.stop = {.reason = Reason::signal}}));
  const Ending lost =
      lost_ending({.started = true, .status = ExitStatus{false, 0}, .tree_dead = true}, "it is");
  CHECK(exit_code_of(lost) == 76);
  CHECK(lost.message.starts_with("it is; the job had ended by then; see "));
}

TEST_CASE("the row remembers the job's end with the exit code of the run") {
  const auto row = [](const JobEnd& end, bool lost = false) { return row_end(end, lost); };
  const auto is = [](const lease::RunEnd& end, lease::RunOutcome outcome, std::optional<int> code) {
    return end.outcome == outcome && end.exit_code == code;
  };
  using lease::RunOutcome;
  const ExitStatus killed{true, 9};
  CHECK(is(row({.status = ExitStatus{false, 0}}), RunOutcome::succeeded, 0));
  CHECK(is(row({.status = ExitStatus{false, 3}}), RunOutcome::failed, 3));
  CHECK(is(row({.status = killed}), RunOutcome::signalled, 137));
  CHECK(is(row({.status = killed, .stop = {.reason = Reason::guardian}}), RunOutcome::signalled, 137));
  CHECK(is(row({.status = killed, .stop = {.reason = Reason::max_runtime}}), RunOutcome::timed_out, 124));
  CHECK(is(row({.status = killed}, true), RunOutcome::lost, 76));
  CHECK(is(row({}, true), RunOutcome::lost, 76));
  CHECK(is(row({.status = ExitStatus{false, 126}, .exec_errno = ENOENT}), RunOutcome::not_run, {}));
  CHECK(is(row({}), RunOutcome::not_run, {}));
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
        "asked to stop by TERM from pid 12 (user 4000000000): the job got TERM, ignored it for 4s, and was "
        "killed");
  CHECK(describe_kill(end.stop) == " (it ignored TERM for 4s and was killed)");
  end.stop.signal = SIGKILL;  // --signal KILL: there was nothing to ignore
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
