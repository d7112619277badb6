// A process that lives on when dblock has ended, and has nothing of dblock's caller: no `$(...)` waits for
// it, no unmounting, no hangup and no closing pipe is held up by it or ends it.
#pragma once

#include <functional>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace dblock::process {

// The name of the process that `acquire --while-pid` leaves behind.
inline constexpr const char* k_keeper_name = "dblock-keeper";

struct Detached {
  const char* name;           // at most 15 bytes
  std::vector<int> kept;      // descriptors that stay open
  bool outside_tree = false;  // no descendant of dblock, where dblock is not process 1
  bool at_root = true;        // cwd "/", not the caller's
};

// Forks such a process, in a session of its own: /dev/null on the standard descriptors that are not kept, its
// end of a channel, and no other descriptor. Signals have their default meaning, but those that end a wait
// (see ends_wait()) and PIPE are ignored: it ends when its work does, or by SIGKILL.
// It runs `body`, with its end of the channel, and ends with it.
// Call before any thread or connection exists.
// RETURNS: dblock's end of the channel, a SOCK_SEQPACKET socket: end of file means that the process is gone.
[[nodiscard]] Result<UniqueFd> fork_detached(const Detached& spec,
                                             const std::function<void(UniqueFd channel)>& body);

// For processes that outlive dblock's caller: closes every descriptor of this process but those in `kept` (-1
// stands for none), and puts /dev/null on those of the standard three that are not.
void keep_only(std::vector<int> kept);

}  // namespace dblock::process
