#include "app/stop.hpp"

#include <csignal>

#include "support/catch.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using lease::NotOursWhy;
using process::JobEnd;
using process::StopReason;

std::string reason(StopReason why, std::optional<NotOursWhy> lost = {}) {
  std::optional<lease::NotOurs> refused;
  if (lost) refused = lease::NotOurs{*lost, {}};
  const auto record = record_stop({.reason = why, .signal = SIGTERM}, false, refused);
  return record ? record->reason : "";
}

TEST_CASE("each reason for a stop has a word of its own in the status file") {
  CHECK(reason(StopReason::none).empty());
  CHECK(reason(StopReason::signal) == "signal");
  CHECK(reason(StopReason::parent) == "parent-ended");
  CHECK(reason(StopReason::deadline) == "deadline");
  CHECK(reason(StopReason::revoked, NotOursWhy::revoked) == "revoked");
  CHECK(reason(StopReason::revoked, NotOursWhy::other_holder) == "lost");
  CHECK(reason(StopReason::max_runtime) == "max-runtime");
  CHECK(reason(StopReason::guardian) == "guardian");
}

TEST_CASE("only a sender that the kernel names is named") {
  const auto of_nobody = record_stop({.reason = StopReason::signal, .signal = SIGTERM}, false, {});
  CHECK_FALSE(of_nobody->pid);
  CHECK_FALSE(of_nobody->uid);
  const auto of_root = record_stop({.reason = StopReason::signal, .signal = SIGTERM, .pid = 5}, false, {});
  CHECK(of_root->pid == 5);
  CHECK(of_root->uid == 0U);
}

TEST_CASE("the words about a stop say what became of the job") {
  JobEnd end{.status = process::ExitStatus{true, SIGKILL},
             .stop = {.reason = StopReason::signal, .signal = SIGTERM, .pid = 12, .uid = 4'000'000'000U},
             .killed = true,
             .stop_took = 4s};
  CHECK(describe_stop(end) ==
        "asked to stop by TERM from pid 12 (user 4000000000): the job got TERM, ignored it for 4s, and was "
        "killed");
  CHECK(describe_kill(end) == " (it ignored TERM for 4s and was killed)");
  end.stop.signal = SIGKILL;  // --signal KILL: there was nothing to ignore
  CHECK(describe_kill(end).empty());
  end.killed = false;
  end.stop = {.reason = StopReason::parent, .signal = SIGTERM, .pid = 12};
  CHECK(
      describe_stop(end) ==
      "asked to stop since the process that started dblock (pid 12) has ended: the job got TERM and ended 4s "
      "later");
  CHECK(describe_kill(end).empty());
}

}  // namespace
}  // namespace dblock::app
