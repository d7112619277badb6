// What an acquisition asks a store for.
#pragma once

#include <optional>
#include <vector>

#include "lease/lease.hpp"
#include "lease/place.hpp"
#include "lease/promises.hpp"
#include "lease/server_time.hpp"

namespace dblock::lease {

// The lease that an acquisition asks the store for.
struct LeaseRequest {
  Key key;
  std::vector<Key> further_keys{};  // further keys, sorted, after `key`: all of them or none
  OwnerId owner;
  Kind kind = Kind::run;
  Terms terms;
  Holder holder;
  Promises promises{};
  Sharing sharing{};
  // Owner id of an ancestor run that may hold the same locks. Where it does, the request nests in the
  // ancestor's lease instead of waiting for it.
  std::optional<OwnerId> outer{};
  Line line = Line::fifo;    // another value only for a plain() request
  bool replaces = false;     // revokes a replaceable lease that refuses the request
  bool replaceable = false;  // such a request may revoke the lease
  // When the request was first refused, once it has a place in the line (LeaseStore::stand_in_line()).
  std::optional<ServerTime> arrival{};
  // A pool: of `key` and these the first that is free is taken. Not together with `further_keys`.
  std::vector<Key> any{};

  [[nodiscard]] bool of_pool() const { return !any.empty(); }
  // One exclusive key: a single statement can grant it.
  [[nodiscard]] bool plain() const {
    return further_keys.empty() && any.empty() && sharing.mode == Mode::exclusive;
  }
};

// The requests that a pool's request stands for, one a key, in the order of preference; else the request
// itself.
[[nodiscard]] std::vector<LeaseRequest> members_of(const LeaseRequest& request);

// What a renewal tells others of the holder's job: when its command ended, while the run waits for what the
// command left running; nullopt: the run does not wait so any more.
struct JobNews {
  std::optional<BootTime> ended_at;
  bool operator==(const JobNews&) const = default;
};

// All keys of the request, those of a pool's members among them.
[[nodiscard]] std::vector<Key> locks_of(const LeaseRequest& request);

// Names the lease that the request may have been granted; without a token, since none is known yet. REQUIRES:
// not of_pool().
[[nodiscard]] LeaseRef ref_to(const LeaseRequest& request);
// The same for each member of a pool.
[[nodiscard]] std::vector<LeaseRef> refs_to(const LeaseRequest& request);

}  // namespace dblock::lease
