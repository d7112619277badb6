#include "store/sharing.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.hpp"

namespace dblock::store {
namespace {

using lease::AcquireRequest;
using lease::Conflict;
using lease::LockStatus;
using lease::Mode;
using lease::Sharing;

std::string in_words(const Sharing& sharing) {
  switch (sharing.mode) {
    case Mode::slot:
      return "--slots " + std::to_string(sharing.slots);
    case Mode::shared:
      return "--shared";
    default:
      return "one exclusive holder";
  }
}

// Readers and a writer wait for each other; a number of slots is a property of the lock that all must agree
// on.
bool agree(const Sharing& held, const Sharing& asked) {
  if (held.mode == Mode::slot || asked.mode == Mode::slot) return held == asked;
  return true;
}

std::uint32_t lowest_free(const std::vector<const LockStatus*>& taken) {
  std::uint32_t slot = 1;
  while (std::ranges::any_of(taken, [slot](const auto* hold) { return hold->slot == slot; })) ++slot;
  return slot;
}

const LockStatus& longest(const std::vector<const LockStatus*>& holds) {
  return **std::ranges::max_element(holds, {}, [](const auto* hold) { return hold->grantable_at(); });
}

const LockStatus& shortest(const std::vector<const LockStatus*>& holds) {
  return **std::ranges::min_element(holds, {}, [](const auto* hold) { return hold->grantable_at(); });
}

bool writer_waits(const LockStatus& gate) {
  return gate.intent_until && *gate.intent_until > gate.server_time;
}

Mismatch mismatch(const LockStatus& gate, const Sharing& held, std::size_t holders, const Sharing& asked) {
  return {"it is held by " + std::to_string(holders) + (holders == 1 ? " holder" : " holders") + " with " +
          in_words(held) + ", and cannot be taken with " + in_words(asked) +
          " before they are gone; use the same for all jobs under key \"" + escape_untrusted(gate.key) +
          "\""};
}

Decision beside(const Scene& seen, const std::vector<const LockStatus*>& taken,
                const AcquireRequest& request) {
  const LockStatus& gate = seen.gate;
  switch (request.sharing.mode) {
    case Mode::exclusive:
      if (!taken.empty()) return Conflict{longest(taken)};
      return Take{0};
    case Mode::shared:
      if (writer_waits(gate)) return Conflict{taken.empty() ? gate : longest(taken)};
      return Take{lowest_free(taken)};
    default:
      if (const auto slot = lowest_free(taken); slot <= request.sharing.slots) return Take{slot};
      return Conflict{shortest(taken)};
  }
}

}  // namespace

bool in_the_way(const LockStatus& status) {
  return status.state == lease::State::unknown || status.grantable_at() > status.server_time;
}

Decision decide(const Scene& seen, const AcquireRequest& request) {
  const LockStatus& gate = seen.gate;
  if (gate.owner == request.owner.text) return Own{gate};
  std::vector<const LockStatus*> taken;
  for (const auto& hold : seen.holds) {
    if (hold.owner == request.owner.text) return Own{hold};
    if (in_the_way(hold)) taken.push_back(&hold);
  }
  // Before the question who holds it: no end of a holder would change this answer.
  if (request.promises.once_per && gate.done_within(*request.promises.once_per))
    return lease::AlreadyDone{gate};
  if (in_the_way(gate)) {
    if (gate.state == lease::State::held && !agree({}, request.sharing))
      return mismatch(gate, {}, 1, request.sharing);
    return Conflict{gate};
  }
  const auto held =
      std::ranges::count(taken, lease::State::held, [](const auto* hold) { return hold->state; });
  if (held > 0 && !agree(gate.sharing, request.sharing))
    return mismatch(gate, gate.sharing, static_cast<std::size_t>(held), request.sharing);
  return beside(seen, taken, request);
}

}  // namespace dblock::store
