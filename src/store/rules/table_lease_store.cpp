#include "store/rules/table_lease_store.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "lease/owner_id.hpp"
#include "store/rules/sharing.hpp"
#include "store/rules/together.hpp"

namespace dblock::store {
namespace {

using Call = LockTable::Call;
using lease::Answer;
using lease::ForceOutcome;
using lease::ForceRefused;
using lease::Key;
using lease::Lease;
using lease::LockStatus;
using lease::NotOurs;
using lease::NotOursWhy;

// Rounds of "refused, but the row looks free": in each one another holder came and went in between.
constexpr int k_acquire_rounds = 5;

std::string attempt_to(std::string_view verb, const lease::Key& key) {
  return "cannot " + std::string(verb) + " lock " + quote_untrusted(key.bytes());
}

// The part of the outer lease that concerns `key`. A nested lease is the outer lease with a higher count.
lease::LeaseRef outer_part(const lease::LeaseRef& ref, const Key& key) {
  lease::LeaseRef part = lease::part_of(ref, key);
  part.owner = lease::outermost(ref.owner);
  return part;
}

// A lease of which only key and owner id are known is looked for as an exclusive one first.
lease::LeaseRef likeliest(lease::LeaseRef ref) {
  if (!ref.mode && ref.rows.empty()) ref.rows = {0};
  return ref;
}

std::unexpected<Error> not_settled(const std::string& attempt, std::string_view why) {
  return fail(Errc::unreachable, attempt + ": " + std::string(why) + "; try again");
}

// True for a row that --force can end: it has a lease, or a cooldown.
bool keeps_the_lock(const LockStatus& row) {
  return !row.owner.empty() || row.state == lease::State::cooldown;
}

// Keeps one row for each holder of a lock, or else the lock's own row, and gives each the past runs of all
// rows of the lock. Drops the free rows of readers and slots. REQUIRES: `rows` are ordered by key and slot.
void show_by_holders(std::vector<LockStatus>& rows) {
  std::vector<LockStatus> shown;
  for (std::size_t first = 0, next = 0; first < rows.size(); first = next) {
    while (next < rows.size() && rows[next].key == rows[first].key) ++next;
    const std::span lock(&rows[first], next - first);
    LockStatus past = lock.front();
    for (const auto& row : lock) merge_past_runs(past, row);
    const bool by_others =
        std::ranges::any_of(lock, [](const LockStatus& row) { return row.slot > 0 && keeps_the_lock(row); });
    for (auto& row : lock) {
      if (row.slot > 0 ? !keeps_the_lock(row) : by_others && row.owner.empty()) continue;
      row.last = past.last;
      row.last_success = past.last_success;
      shown.push_back(std::move(row));
    }
  }
  rows = std::move(shown);
}

bool passed(const std::optional<lease::ServerTime>& limit, const LockStatus& status) {
  return !limit || *limit <= status.server_time;
}

}  // namespace

TableLeaseStore::TableLeaseStore(std::unique_ptr<LockTable> table, Clock& clock)
    : table_(std::move(table)), clock_(clock) {}

Result<void> TableLeaseStore::connect() {
  const Call call(*table_);
  return table_->ensure_open(table_->database().connecting());
}

Result<Answer> TableLeaseStore::take(const lease::LeaseRequest& request) {
  const Call call(*table_);
  const std::string attempt = attempt_to("acquire", request.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  DBLOCK_CHECK(table_->database().safe_to_grant(attempt));
  // Any of the statements below may be the one that grants, and none is sent before this moment: so the
  // deadline counts from it.
  const BootTime sent_at = clock_.now();
  auto outcome = request.plain() ? try_alone(request, sent_at, attempt)
                                 : take_together(*table_, request, sent_at, intent_, attempt);
  if (outcome) return outcome;
  return fenced_or(request, std::move(outcome.error()), attempt);
}

Result<Answer> TableLeaseStore::try_alone(const lease::LeaseRequest& request, BootTime sent_at,
                                          const std::string& attempt) {
  for (int round = 0; round < k_acquire_rounds; ++round) {
    if (round > 0) DBLOCK_CHECK(table_->add_missing_fence(request.key, attempt));
    DBLOCK_TRY(auto outcome, try_once(request, sent_at, round > 0, attempt));
    if (outcome) return std::move(*outcome);
  }
  return not_settled(attempt, "it changed hands at every try");
}

Result<Answer> TableLeaseStore::fenced_or(const lease::LeaseRequest& request, Error why,
                                          const std::string& attempt) {
  for (const Key& key : keys_of(request.key, request.also)) {
    DBLOCK_TRY(const bool kept, table_->database().kept_by_fence(key, why, attempt));
    if (!kept) continue;
    DBLOCK_TRY(auto seen, table_->look(key, attempt));
    if (!seen) break;
    seen->kept_by_transaction = !refuses_requests(*seen);
    return lease::Held{std::move(*seen)};
  }
  return std::unexpected(std::move(why));
}

Result<std::optional<Answer>> TableLeaseStore::try_once(const lease::LeaseRequest& request, BootTime sent_at,
                                                        bool again, const std::string& attempt) {
  DBLOCK_TRY(auto token, table_->grant(request, attempt));
  if (token) return lease::granted(request, *token, 0, sent_at);
  DBLOCK_TRY(auto seen,
             again ? table_->look_on_primary(request.key, attempt) : table_->look(request.key, attempt));
  if (!seen) {
    DBLOCK_TRY(token, table_->create(request, attempt));
    if (token) return lease::granted(request, *token, 0, sent_at);
    return std::nullopt;
  }
  // The last holders were readers or slot holders: one statement cannot tell whether they are gone.
  if (seen->sharing.mode != lease::Mode::exclusive)
    return take_together(*table_, request, sent_at, intent_, attempt);
  DBLOCK_TRY(auto answer, answer_for({std::move(*seen), {}}, request));
  // A proxy that replays statements reports 0 rows for a grant that was made. The row shows it (I5).
  if (auto* ours = std::get_if<lease::Granted>(&answer)) ours->lease.sent_at = sent_at;
  if (std::holds_alternative<lease::Free>(answer)) return std::nullopt;
  return answer;
}

Result<std::optional<Lease>> TableLeaseStore::nest_in(const lease::LeaseRequest& request) {
  const Call call(*table_);
  const std::string attempt = attempt_to("acquire", request.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  DBLOCK_CHECK(table_->database().safe_to_grant(attempt));
  return nest_together(*table_, request, clock_.now(), attempt);
}

// Finds the rows of the outer lease, so that the nested run renews by primary key. Where one is not found,
// every renewal searches all rows of its key.
void TableLeaseStore::find_rows(Lease& lease) {
  if (lease.sharing.mode == lease::Mode::exclusive) return;
  const Call call(*table_, Database::Patience::renewal);  // the job cannot start before this ends
  const std::string attempt = attempt_to("look at", lease.key);
  const lease::OwnerId outer = lease::outermost(lease.owner);
  const auto is_ours = [&](const LockStatus& hold) {
    return hold.owner == outer.text && hold.token == lease.token;
  };
  const auto locks = table_->survey(keys_of(lease.key, lease.also), false, attempt);
  if (!locks) return;
  for (const auto& seen : *locks) {
    if (!seen) return lease.rows.clear();
    const auto own = std::ranges::find_if(seen->holds, is_ours);
    if (own == seen->holds.end()) return lease.rows.clear();
    lease.rows.push_back(own->slot);
  }
}

void TableLeaseStore::withdraw_intent(const lease::LeaseRequest& request) noexcept {
  if (!intent_) return;
  const Call call(*table_);
  store::withdraw_intent(*table_, request, *intent_);
  intent_.reset();
}

Result<Answer> TableLeaseStore::look(const lease::LeaseRequest& request) {
  const Call call(*table_);
  const std::string attempt = attempt_to("look at", request.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  if (!request.plain()) return look_together(*table_, request, attempt);
  DBLOCK_TRY(auto seen, table_->look(request.key, attempt));
  return judge(request, std::move(seen), attempt);
}

Result<Answer> TableLeaseStore::look_with_position(const lease::LeaseRequest& request) {
  if (!request.plain()) return look(request);
  const Call call(*table_);
  const std::string attempt = attempt_to("look at", request.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  DBLOCK_TRY(auto seen, table_->look(request.key, attempt));
  const auto position = seen ? table_->database().waiter_position(*seen) : std::nullopt;
  DBLOCK_TRY(auto answer, judge(request, std::move(seen), attempt));
  if (auto* held = std::get_if<lease::Held>(&answer)) held->status.position = position;
  return answer;
}

// The answer to an exclusive request of one key, from the lock's own row.
Result<Answer> TableLeaseStore::judge(const lease::LeaseRequest& request, std::optional<LockStatus> seen,
                                      const std::string& attempt) {
  if (!seen) return lease::Free{};
  if (seen->sharing.mode != lease::Mode::exclusive) return look_together(*table_, request, attempt);
  return answer_for({std::move(*seen), {}}, request);
}

Result<std::optional<LockStatus>> TableLeaseStore::peek(const lease::Key& key) {
  const Call call(*table_);
  return row_where(key, attempt_to("look at", key), [](const LockStatus& row) { return !row.owner.empty(); });
}

Result<lease::RenewOutcome> TableLeaseStore::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                   std::optional<Micros> ttl) {
  using Patience = Database::Patience;
  const Call call(*table_, actor == lease::Actor::holder ? Patience::renewal : Patience::usual);
  const std::string attempt = attempt_to("renew", ref.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  if (unproved_) DBLOCK_CHECK(table_->database().safe_to_grant(attempt));
  std::optional<lease::RenewOutcome> first;
  for (const Key& key : keys_of(ref.key, ref.also)) {
    const lease::LeaseRef one = outer_part(ref, key);
    if (actor == lease::Actor::script && lease::is_nested(ref.owner)) return nested_for_script(one, attempt);
    DBLOCK_TRY(auto outcome, renew_one(one, actor, ttl, attempt));
    if (std::holds_alternative<NotOurs>(outcome)) return outcome;
    if (!first) first = std::move(outcome);
  }
  if (unproved_) DBLOCK_CHECK(table_->database().grant_is_safe(attempt));
  unproved_ = false;
  return std::move(*first);
}

Result<lease::RenewOutcome> TableLeaseStore::renew_one(const lease::LeaseRef& ref, lease::Actor actor,
                                                       std::optional<Micros> ttl,
                                                       const std::string& attempt) {
  const BootTime sent_at = clock_.now();
  DBLOCK_TRY(auto renewal, table_->renew(likeliest(ref), actor, ttl, attempt));
  std::optional<LockStatus> seen;
  if (!renewal) {
    DBLOCK_TRY(const auto found, found_elsewhere(ref, attempt));
    if (found) {
      DBLOCK_TRY(renewal, table_->renew(*found, actor, ttl, attempt));
    }
  }
  if (!renewal) return why_not(ref, actor, true, attempt);
  lease::Renewed renewed{sent_at, renewal->ttl, renewal->expires_at.value_or(lease::ServerTime{})};
  if (actor == lease::Actor::script && !renewal->expires_at) {
    DBLOCK_TRY(seen, own_row(ref, attempt));
    if (!seen || seen->owner != ref.owner.text) return why_not(ref, actor, true, attempt);
    renewed.expires_at = seen->expires_at.value_or(lease::ServerTime{});
  }
  return renewed;
}

Result<lease::ReleaseOutcome> TableLeaseStore::release(const lease::LeaseRef& ref, lease::Actor actor,
                                                       lease::RunEnd end) {
  const Call call(*table_);
  const std::string attempt = attempt_to("release", ref.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  if (lease::is_nested(ref.owner)) {
    if (actor != lease::Actor::script) return unnest(ref, attempt);
    return nested_for_script(outer_part(ref, ref.key), attempt);
  }
  if (!ref.also.empty()) {
    DBLOCK_TRY(const auto missing, table_->release_all(ref, actor, end, attempt));
    if (missing.empty()) return lease::Released{};
    return why_not(lease::part_of(ref, missing.front()), actor, false, attempt);
  }
  DBLOCK_TRY(bool released, table_->release(likeliest(ref), actor, end, attempt));
  if (!released) {
    DBLOCK_TRY(const auto found, found_elsewhere(ref, attempt));
    if (found) {
      DBLOCK_TRY(released, table_->release(*found, actor, end, attempt));
    }
  }
  if (released) return lease::Released{};
  return why_not(ref, actor, false, attempt);
}

// Finds a lease that is not in its likeliest row: `ref` with the right row; nullopt: no other row has it.
Result<std::optional<lease::LeaseRef>> TableLeaseStore::found_elsewhere(lease::LeaseRef ref,
                                                                        const std::string& attempt) {
  if (ref.mode || !ref.rows.empty()) return std::nullopt;
  DBLOCK_TRY(const auto seen, own_row(ref, attempt));
  if (!seen || seen->slot == 0) return std::nullopt;
  ref.rows = {seen->slot};
  return ref;
}

// Why a script may not renew or release a nested lease: it is the lease of the outer run. Leases of scripts
// have no nested runs.
Result<NotOurs> TableLeaseStore::nested_for_script(const lease::LeaseRef& outer, const std::string& attempt) {
  DBLOCK_TRY(auto seen, own_row(outer, attempt));
  if (!seen) return NotOurs{NotOursWhy::absent, std::nullopt};
  if (seen->owner.empty()) return NotOurs{NotOursWhy::free, std::move(seen)};
  const bool of_run = seen->owner == outer.owner.text && seen->kind == lease::Kind::run;
  return NotOurs{of_run ? NotOursWhy::run_lease : NotOursWhy::other_holder, std::move(seen)};
}

Result<lease::ReleaseOutcome> TableLeaseStore::unnest(const lease::LeaseRef& ref,
                                                      const std::string& attempt) {
  std::optional<lease::LeaseRef> not_counted;
  const auto count_out = [&]() -> Result<void> {
    not_counted.reset();
    for (const Key& key : keys_of(ref.key, ref.also)) {
      const lease::LeaseRef outer = outer_part(ref, key);
      DBLOCK_TRY(const bool counted, table_->unnest(outer, attempt));
      if (!counted && !not_counted) not_counted = outer;
    }
    return {};
  };
  DBLOCK_CHECK(ref.also.empty() ? count_out() : table_->in_transaction(attempt, count_out));
  if (not_counted) return why_not(*not_counted, lease::Actor::holder, false, attempt);
  return lease::Released{};
}

// The row of `ref` among all rows of its lock, also when its lease has ended. Where there is none: another
// holder's row, or else the lock's own.
Result<std::optional<LockStatus>> TableLeaseStore::own_row(const lease::LeaseRef& ref,
                                                           const std::string& attempt) {
  return row_where(ref.key, attempt, [&ref](const LockStatus& row) {
    if (row.owner == ref.owner.text) return !ref.token || row.token == *ref.token;
    return row.slot > 0 && ref.token && row.token == *ref.token;
  });
}

Result<std::optional<LockStatus>> TableLeaseStore::row_where(
    const Key& key, const std::string& attempt, const std::function<bool(const LockStatus&)>& wanted) {
  DBLOCK_CHECK(table_->ensure_open(attempt));
  DBLOCK_TRY(auto gate, table_->look(key, attempt));
  if (!gate || wanted(*gate) || gate->sharing.mode == lease::Mode::exclusive) return gate;
  DBLOCK_TRY(auto locks, table_->survey({key}, false, attempt));
  auto& seen = locks.front();
  if (!seen) return std::nullopt;
  for (auto& hold : seen->holds) {
    if (wanted(hold)) return std::move(hold);
  }
  for (auto& hold : seen->holds) {
    if (keeps_the_lock(hold)) return std::move(hold);
  }
  return with_past_runs(*seen);
}

Result<NotOurs> TableLeaseStore::why_not(const lease::LeaseRef& ref, lease::Actor actor, bool renewing,
                                         const std::string& attempt) {
  DBLOCK_TRY(auto seen, own_row(ref, attempt));
  if (!seen) return NotOurs{NotOursWhy::absent, std::nullopt};
  const auto because = [&seen](NotOursWhy why) { return NotOurs{why, std::move(seen)}; };
  if (seen->owner.empty()) return because(NotOursWhy::free);
  if (seen->owner != ref.owner.text || (ref.token && seen->token != *ref.token))
    return because(NotOursWhy::other_holder);
  if (actor == lease::Actor::script && seen->kind == lease::Kind::run) return because(NotOursWhy::run_lease);
  if (renewing && seen->revoked_at) return because(NotOursWhy::revoked);
  const bool over = passed(seen->expires_at, *seen);
  if ((renewing || actor == lease::Actor::script) && over) return because(NotOursWhy::expired);
  if (!renewing && actor == lease::Actor::holder && seen->count > 1 && !over)
    return because(NotOursWhy::nested);
  // By this row the statement should have matched: answers that contradict each other are not relied on.
  return not_settled(attempt, "the server's answers contradict each other");
}

Result<ForceOutcome> TableLeaseStore::revoke(const lease::Key& key, lease::Token token) {
  return force(Force::revoke, key, token, attempt_to("revoke", key));
}

Result<ForceOutcome> TableLeaseStore::free_now(const lease::Key& key, lease::Token token) {
  return force(Force::free_now, key, token, attempt_to("free", key));
}

Result<ForceOutcome> TableLeaseStore::force(Force how, const lease::Key& key, lease::Token token,
                                            const std::string& attempt) {
  const Call call(*table_);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  const auto look = [&] {
    return row_where(key, attempt,
                     [token](const LockStatus& row) { return keeps_the_lock(row) && row.token == token; });
  };
  // Looks before it changes, so that the report names the affected holder and not its successor.
  DBLOCK_TRY(auto before, look());
  using Why = ForceRefused::Why;
  if (!before || !keeps_the_lock(*before)) return ForceRefused{Why::not_held, std::move(before)};
  if (before->token != token) return ForceRefused{Why::wrong_token, std::move(before)};
  const bool frees = how == Force::free_now && !before->owner.empty();
  DBLOCK_TRY(const bool changed, frees ? table_->free_now(key, before->slot, token, attempt)
                                       : table_->revoke(key, before->slot, token, attempt));
  if (changed) {
    if (!frees && !before->owner.empty() && !before->revoked_at) before->revoked_at = before->server_time;
    return lease::Revoked{std::move(*before)};
  }
  DBLOCK_TRY(auto after, look());
  if (!after || !keeps_the_lock(*after)) return ForceRefused{Why::not_held, std::move(after)};
  if (after->token != token) return ForceRefused{Why::wrong_token, std::move(after)};
  if (frees && !after->owner.empty()) return ForceRefused{Why::fresh_heartbeat, std::move(after)};
  return not_settled(attempt, "the server's answers contradict each other");
}

Result<lease::Listing> TableLeaseStore::list(const lease::Selection& selection) {
  const Call call(*table_);
  const std::string attempt = "cannot list locks";
  DBLOCK_CHECK(table_->ensure_open(attempt));
  DBLOCK_TRY(auto listing, table_->list(selection, attempt));
  show_by_holders(listing.locks);
  return listing;
}

Result<lease::ReapReport> TableLeaseStore::reap(const lease::ReapOptions& options) {
  const Call call(*table_);
  const std::string attempt = "cannot reap locks";
  DBLOCK_CHECK(table_->ensure_open(attempt));
  return table_->reap(options, attempt);
}

void TableLeaseStore::prepare_release() noexcept {
  table_->database().prepare(Verb::release);
}

lease::Turnstile* TableLeaseStore::turnstile() noexcept {
  return table_->database().turnstile();
}

void TableLeaseStore::disconnect() noexcept {
  table_->database().close();
}

void TableLeaseStore::interrupt() noexcept {
  table_->database().interrupt();
}

}  // namespace dblock::store
