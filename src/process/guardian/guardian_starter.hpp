// Starts the guardians of a job's later attempts.
//
// A guardian has to be forked by a process without threads, and its job begins with the session, terminal and
// descriptors of dblock's caller. After the first attempt neither dblock nor its guardian is such a process:
// dblock has threads, and the guardian has given the rest up. So dblock forks this one beside the first
// guardian. It waits, watches nothing, and ends when dblock does.
#pragma once

#include <sys/types.h>

#include <functional>
#include <utility>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace dblock::process {

// What a guardian gets of its two channels.
struct GuardianEnds {
  UniqueFd socket;  // to dblock
  UniqueFd gate;    // the job's end of the gate
};

class GuardianStarter {
 public:
  // Call where the first guardian is forked, before that. `become_guardian` runs in each guardian, and does
  // not return.
  [[nodiscard]] static Result<GuardianStarter> fork(
      const std::function<void(GuardianEnds ends)>& become_guardian);
  GuardianStarter(GuardianStarter&& other) noexcept
      : channel_(std::move(other.channel_)), pid_(std::exchange(other.pid_, 0)) {}
  GuardianStarter& operator=(GuardianStarter&&) = delete;
  // Kills the process, which has nothing to protect, and waits for it.
  ~GuardianStarter();

  // Has a guardian forked, as dblock's own child. MessageType::ready, its first message, tells its pid. Where
  // it cannot be forked, both ends are closed. Does not block. False: the process is gone, or does not
  // listen.
  [[nodiscard]] bool start(const GuardianEnds& ends) const;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void has_ended() { pid_ = 0; }  // somebody else has waited for the process

 private:
  GuardianStarter(UniqueFd channel, pid_t pid) : channel_(std::move(channel)), pid_(pid) {}

  UniqueFd channel_;
  pid_t pid_ = 0;
};

}  // namespace dblock::process
