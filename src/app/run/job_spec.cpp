#include "app/run/job_spec.hpp"

#include <cstdlib>

#include "base/text.hpp"
#include "process/command.hpp"

namespace dblock::app {

Result<process::JobSpec> make_spec(const RunRequest& request) {
  process::JobSpec spec;
  if (request.shell_command) {
    spec.executable = "/bin/sh";
    spec.argv = {"sh", "-c", *request.shell_command};
  } else {
    DBLOCK_TRY(spec.executable, process::find_command(request.command.front(), std::getenv("PATH")));
    spec.argv = request.command;
  }
  spec.first_signal = request.first_signal;
  spec.kill_grace = request.timing.kill_grace;
  spec.stop_grace = request.stop_grace;
  spec.slack = request.timing.slack;
  spec.leftovers = request.leftovers;
  spec.tell_start = !request.hooks.start.empty();
  spec.retried = request.retry.count > 0;
  return spec;
}

std::string program_name(const RunRequest& request) {
  return request.shell_command ? "sh" : request.command.front();
}

std::string describe_command(const RunRequest& request) {
  if (!request.record_args) return program_name(request);
  if (request.shell_command) return "sh -c " + shell_quote(*request.shell_command);
  std::string text;
  for (const std::string& word : request.command) text += (text.empty() ? "" : " ") + shell_quote(word);
  return text;
}

}  // namespace dblock::app
