#include "app/stop.hpp"

#include <chrono>
#include <cstring>

#include "app/identity.hpp"
#include "base/duration.hpp"

namespace dblock::app {
namespace {

using process::JobEnd;
using process::StopReason;
using process::StopRequest;

std::string name_of(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? name : std::to_string(signal);
}

std::string sender_of(const StopRequest& request) {
  if (request.terminal) return "from the terminal";
  // The kernel shows no pid of a process in a PID namespace around ours.
  if (request.pid == 0) return "from a process outside of this PID namespace";
  return "from pid " + std::to_string(request.pid) + " (user " + account_name(request.uid) + ")";
}

std::string parent_of(const StopRequest& request) {
  return "the process that started dblock (pid " + std::to_string(request.pid) + ") has ended";
}

std::string grace_of(const JobEnd& end) {
  return format_age(std::chrono::duration_cast<Micros>(end.stop_took));
}

std::string reason_of(const StopRequest& request, const std::optional<lease::NotOurs>& lost) {
  switch (request.reason) {
    case StopReason::none:
      break;
    case StopReason::signal:
      return "signal";
    case StopReason::parent:
      return "parent-ended";
    case StopReason::deadline:
      return "deadline";
    case StopReason::revoked:
      return lost && lost->why == lease::NotOursWhy::revoked ? "revoked" : "lost";
    case StopReason::max_runtime:
      return "max-runtime";
    case StopReason::guardian:
      return "guardian";
  }
  return "none";
}

}  // namespace

Ending interrupted_by(const StopRequest& request, const std::string& doing) {
  const std::string why = request.reason == StopReason::parent
                              ? "stopped since " + parent_of(request) + ","
                              : "stopped by SIG" + name_of(request.signal) + " " + sender_of(request);
  return Ending{.how = Ending::How::interrupted, .number = request.signal, .message = why + " " + doing};
}

std::string describe_stop(const JobEnd& end) {
  const std::string signal = name_of(end.stop.signal);
  const std::string asked = end.stop.reason == StopReason::parent
                                ? "asked to stop since " + parent_of(end.stop)
                                : "asked to stop by " + signal + " " + sender_of(end.stop);
  if (end.stop_came_late) return asked + ": the job had ended by then, and what it left running was stopped";
  return asked + ": the job got " + signal +
         (end.killed ? ", ignored it for " + grace_of(end) + ", and was killed"
                     : " and ended " + grace_of(end) + " later");
}

std::string describe_kill(const JobEnd& end) {
  if (!end.killed || end.stop.signal == SIGKILL) return "";
  return " (it ignored " + name_of(end.stop.signal) + " for " + grace_of(end) + " and was killed)";
}

std::optional<StopRecord> record_stop(const StopRequest& request, bool killed,
                                      const std::optional<lease::NotOurs>& lost) {
  if (request.reason == StopReason::none) return std::nullopt;
  StopRecord record{.reason = reason_of(request, lost),
                    .signal = name_of(request.signal),
                    .terminal = request.terminal,
                    .pid = {},
                    .uid = {},
                    .killed = killed};
  if (request.pid != 0) record.pid = request.pid;
  if (request.pid != 0 && request.reason == StopReason::signal) record.uid = request.uid;
  return record;
}

}  // namespace dblock::app
