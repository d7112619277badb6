#include "store/rules/sharing.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <variant>

#include "base/text.hpp"
#include "lease/line.hpp"

namespace dblock::store {
namespace {

using lease::Answer;
using lease::Free;
using lease::Held;
using lease::LeaseRequest;
using lease::LockStatus;
using lease::Mode;
using lease::Sharing;

std::string in_words(const Sharing& sharing) {
  switch (sharing.mode) {
    case Mode::slot:
      return "with --slots " + std::to_string(sharing.slots);
    case Mode::shared:
      return "as a reader (--shared)";
    default:
      return "exclusively";
  }
}

// True when a holder and a request go together on one lock. Readers and a writer wait for each other; the
// number of slots must be the same for all.
bool modes_agree(const Sharing& held, const Sharing& asked) {
  if (held.mode == Mode::slot || asked.mode == Mode::slot) return held == asked;
  return true;
}

bool is_taken(const LockStatus& holder) {
  return holder.kept_by_transaction || holder.refuses_requests();
}

// Passes over a fenced slot: a grant there would wait for the end of the last holder's transaction.
std::uint32_t lowest_free(const std::vector<LockStatus>& holders) {
  std::uint32_t slot = 1;
  const auto taken = [&slot](const auto& holder) { return holder.slot == slot && is_taken(holder); };
  while (std::ranges::any_of(holders, taken)) ++slot;
  return slot;
}

const LockStatus* fenced_in(const LockRows& seen) {
  const auto found = std::ranges::find_if(seen.holders, &LockStatus::kept_by_transaction);
  return found == seen.holders.end() ? nullptr : &*found;
}

const LockStatus& longest(const std::vector<const LockStatus*>& holders) {
  return **std::ranges::max_element(holders, {}, [](const auto* holder) { return holder->grantable_at(); });
}

const LockStatus& shortest(const std::vector<const LockStatus*>& holders) {
  return **std::ranges::min_element(holders, {}, [](const auto* holder) { return holder->grantable_at(); });
}

std::unexpected<Error> mismatch(const LockStatus& own_row, const Sharing& held, std::ptrdiff_t holders,
                                const Sharing& asked) {
  const std::string key = quote_untrusted(own_row.key);
  return fail(Errc::usage, "cannot acquire lock " + key + ": it is held " + in_words(held) + " (by " +
                               std::to_string(holders) + ") and cannot be taken " + in_words(asked) +
                               " until that has ended; use the same for all jobs under key " + key);
}

// Names the other holders too: a waiter must know whether one of them is its own ancestor.
Held held_by_all(const LockStatus& named, const std::vector<const LockStatus*>& taken) {
  Held held{named};
  for (const auto* holder : taken) {
    if (holder->slot != named.slot) held.status.other_owners.push_back(holder->owner);
  }
  return held;
}

Answer answer_beside(const LockRows& seen, const LockStatus& lock,
                     const std::vector<const LockStatus*>& taken, const LeaseRequest& request) {
  const std::uint32_t slot = request.sharing.mode == Mode::exclusive ? 0 : lowest_free(seen.holders);
  switch (request.sharing.mode) {
    case Mode::exclusive:
      if (!taken.empty()) return held_by_all(longest(taken), taken);
      break;
    case Mode::shared:
      break;
    default:
      if (slot > request.sharing.slots) return Held{taken.empty() ? *fenced_in(seen) : shortest(taken)};
  }
  return Free{slot, lock};
}

// A run without a release has no known end: its beginning counts instead.
bool ended_before(const lease::PastRun& one, const lease::PastRun& other) {
  const auto end = [](const lease::PastRun& run) {
    return run.released_at ? run.released_at : run.acquired_at;
  };
  return std::tuple(end(one), one.acquired_at) < std::tuple(end(other), other.acquired_at);
}

}  // namespace

void merge_past_runs(LockStatus& lock, const LockStatus& row) {
  if (row.last && (!lock.last || ended_before(*lock.last, *row.last))) lock.last = row.last;
  const auto shortest = [&lock](const lease::PastRun& success) {
    const Micros granted = success.acquired_at.value_or(lease::ServerTime{}).since_epoch;
    return lease::OncePer::shortest_period_at(lock.server_time.since_epoch - granted);
  };
  const auto& found = row.last_success;
  if (found && (!lock.last_success || shortest(*found) < shortest(*lock.last_success)))
    lock.last_success = found;
}

LockStatus with_past_runs(const LockRows& seen) {
  LockStatus lock = seen.own_row;
  for (const auto& holder : seen.holders) merge_past_runs(lock, holder);
  return lock;
}

std::vector<std::optional<LockRows>> rows_of_locks(const std::vector<lease::Key>& keys,
                                                   std::vector<LockStatus> rows) {
  std::vector<std::optional<LockRows>> locks(keys.size());
  for (auto& row : rows) {
    const auto key = std::ranges::find(keys, row.key, &lease::Key::bytes);
    if (key == keys.end()) continue;
    auto& lock = locks[static_cast<std::size_t>(key - keys.begin())];
    if (row.slot == 0) {
      lock = LockRows{std::move(row), {}};
    } else if (lock) {
      lock->holders.push_back(std::move(row));
    }
  }
  return locks;
}

const LockStatus* nested_row(const LockRows& seen, const std::string& owner) {
  const auto is_nested = [&owner](const LockStatus& row) {
    return row.owner == owner && row.count > 1 && row.state == lease::State::held;
  };
  if (is_nested(seen.own_row)) return &seen.own_row;
  const auto holder = std::ranges::find_if(seen.holders, is_nested);
  return holder == seen.holders.end() ? nullptr : &*holder;
}

bool changes_kind(const Sharing& last, const Sharing& asked) {
  return last.mode != asked.mode || (asked.mode == Mode::slot && last.slots != asked.slots);
}

bool keeps_the_lock(const LockStatus& row) {
  return !row.owner.empty() || row.state == lease::State::cooldown;
}

bool is_sooner(const Answer& one, const Answer& other) {
  const auto end = [](const Answer& answer) {
    const LockStatus& status = std::get<Held>(answer).status;
    return std::max(status.grantable_at(), status.pause ? status.pause->until : lease::ServerTime{});
  };
  return end(one) < end(other);
}

Answer best_of(std::vector<Answer> answers) {
  auto* best = &answers.front();
  for (auto& answer : answers) {
    if (std::holds_alternative<lease::Granted>(answer)) return std::move(answer);
    const bool was_held = std::holds_alternative<Held>(*best);
    const bool is_held = std::holds_alternative<Held>(answer);
    if (was_held && (!is_held || is_sooner(answer, *best))) best = &answer;
  }
  return std::move(*best);
}

namespace {

// The answer as if no pause covered the lock.
Result<Answer> answer_by_holders(const LockRows& seen, const LeaseRequest& request) {
  const LockStatus lock = with_past_runs(seen);
  if (lock.owner == request.owner.text) return found(request, lock, {});
  std::vector<const LockStatus*> taken;
  for (const auto& holder : seen.holders) {
    if (holder.owner == request.owner.text) return found(request, holder, {});
    if (holder.refuses_requests()) taken.push_back(&holder);
  }
  // Asked before the holders are looked at: no release of theirs would change this answer.
  if (request.promises.once_per && lock.done_within(*request.promises.once_per)) return lease::Done{lock};
  if (lock.refuses_requests()) {
    if (lock.state == lease::State::held && !modes_agree({}, request.sharing))
      return mismatch(lock, {}, 1, request.sharing);
    return Held{lock};
  }
  const auto held =
      std::ranges::count(taken, lease::State::held, [](const auto* holder) { return holder->state; });
  const bool apart = std::ranges::any_of(
      taken, [&request](const auto* holder) { return !modes_agree(holder->sharing, request.sharing); });
  if (apart && held > 0) return mismatch(lock, taken.front()->sharing, held, request.sharing);
  // A lease within its margin, or a cooldown, refuses the request like a held lease, but the request may wait
  // for its end.
  if (apart) return held_by_all(longest(taken), taken);
  // A grant of another kind writes every fence of the key, so one fence that a transaction has locked is
  // enough to refuse it.
  const auto* fenced = fenced_in(seen);
  if (fenced != nullptr && taken.empty() && changes_kind(lock.sharing, request.sharing)) return Held{*fenced};
  return answer_beside(seen, lock, taken, request);
}

}  // namespace

// A pause only refuses. Holders are named before it: a waiter must know whether one of them is its own
// ancestor.
Result<Answer> answer_for(const LockRows& seen, const LeaseRequest& request) {
  DBLOCK_TRY(auto answer, answer_by_holders(seen, request));
  if (!seen.own_row.pause) return answer;
  if (std::holds_alternative<Free>(answer)) return Held{with_past_runs(seen)};
  if (auto* held = std::get_if<Held>(&answer)) held->status.pause = seen.own_row.pause;
  return answer;
}

namespace {

std::size_t free_slots(const LockRows& seen, const LeaseRequest& request) {
  const auto taken = static_cast<std::size_t>(std::ranges::count_if(seen.holders, is_taken));
  return request.sharing.slots - std::min<std::size_t>(request.sharing.slots, taken);
}

}  // namespace

// An application that waits among holders of slots wants them all.
bool passes_others(const LockRows& seen, const LeaseRequest& request,
                   const std::vector<lease::Place>& places) {
  const auto before = lease::places_before(places, request, seen.own_row.key);
  if (request.sharing.mode != Mode::slot) return !before.empty();
  const auto wants_all = [](const auto* place) { return place->sharing.mode != Mode::slot; };
  return std::ranges::any_of(before, wants_all) ||
         (!before.empty() && free_slots(seen, request) <= before.size());
}

// Of slots, as many are for others as wait before the request. A slot, or a lock without holders, that nobody
// takes for a while is for whoever asks.
bool is_for_others(const LockRows& seen, const LeaseRequest& request,
                   const std::vector<lease::Place>& places) {
  if (!passes_others(seen, request, places)) return false;
  const auto is_long_free = [](const LockStatus& holder) {
    return !is_taken(holder) && lease::long_free(holder);
  };
  if (request.sharing.mode != Mode::slot)
    return !lease::long_free(seen.own_row) || !std::ranges::all_of(seen.holders, is_long_free);
  // Rows of greater numbers stay when fewer slots are asked for than before. A slot that was never granted
  // has none.
  const auto is_ours = [&](const LockStatus& holder) { return holder.slot <= request.sharing.slots; };
  const auto rows = static_cast<std::size_t>(std::ranges::count_if(seen.holders, is_ours));
  const bool new_one_waits = rows < request.sharing.slots && lease::long_free(seen.own_row);
  return !new_one_waits && std::ranges::none_of(seen.holders, [&](const LockStatus& holder) {
    return is_ours(holder) && is_long_free(holder);
  });
}

}  // namespace dblock::store
