#include "process/exit_status.hpp"

#include <sys/wait.h>

namespace dblock::process {

ExitStatus ExitStatus::from_wait(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {true, WTERMSIG(wait_status)};
  return {false, WEXITSTATUS(wait_status)};
}

}  // namespace dblock::process
