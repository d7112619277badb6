// A detached process: it may outlive dblock, and keeps of dblock's caller only what `Detached` names. So the
// caller's `$(...)` does not wait for it, its working directory prevents no unmounting, and neither a hangup
// nor a closed pipe ends it.
#pragma once

#include <functional>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace dblock::process {

// The name of the process that `acquire --while-pid` leaves behind.
inline constexpr const char* k_keeper_name = "dblock-keeper";

struct Detached {
  const char* name;           // of the process; at most 15 bytes
  std::vector<int> kept;      // descriptors that stay open
  bool outside_tree = false;  // make it no descendant of dblock; impossible where dblock is process 1
  bool at_root = true;        // working directory "/"; false: the caller's
};

// Forks a detached process, in a session of its own. The process runs `body` with its end of a channel, and
// exits when `body` returns. Its only descriptors are the channel, those in `spec.kept`, and /dev/null on the
// standard descriptors that are not kept. It ignores SIGPIPE and the signals that end a wait (ends_wait()),
// and leaves all other signals at their default: it ends when its work does, or by SIGKILL.
// REQUIRES: no thread and no connection exists yet.
// RETURNS: dblock's end of the channel, a SOCK_SEQPACKET socket: end of file means that the process is gone.
[[nodiscard]] Result<UniqueFd> fork_detached(const Detached& spec,
                                             const std::function<void(UniqueFd channel)>& body);

// Closes every descriptor of this process that is not in `kept` (entries of -1 are skipped), and puts
// /dev/null on each standard descriptor that is not kept. For processes that outlive dblock's caller.
void keep_only(std::vector<int> kept);

}  // namespace dblock::process
