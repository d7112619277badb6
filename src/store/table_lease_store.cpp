#include "store/table_lease_store.hpp"

#include <utility>

#include "base/text.hpp"

namespace dblock::store {
namespace {

using lease::AcquireOutcome;
using lease::Conflict;
using lease::ForceOutcome;
using lease::ForceRefused;
using lease::Lease;
using lease::LockStatus;
using lease::NotOurs;
using lease::NotOursWhy;

// Rounds of "refused, but the row looks free": each lost to someone who came and went in between.
constexpr int k_acquire_rounds = 5;

class Call {
 public:
  explicit Call(LockTable& table) : table_(table) { table_.begin_call(); }
  ~Call() { table_.end_call(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  LockTable& table_;
};

std::string attempt_to(std::string_view verb, const lease::Key& key) {
  return "cannot " + std::string(verb) + " lock \"" + escape_untrusted(key.bytes()) + "\"";
}

Lease granted(const lease::AcquireRequest& request, lease::Token token, BootTime sent_at, bool needs_proof) {
  return Lease{request.key, request.owner, token, request.terms, sent_at, needs_proof};
}

std::unexpected<Error> not_settled(const std::string& attempt, std::string_view why) {
  return fail(Errc::unreachable, attempt + ": " + std::string(why) + "; try again");
}

bool passed(const std::optional<lease::ServerTime>& limit, const LockStatus& status) {
  return !limit || *limit <= status.server_time;
}

}  // namespace

std::string after_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1U);
  return prefix;
}

lease::State state_of(const lease::LockStatus& status) {
  if (status.owner.empty())
    return status.hold_until && *status.hold_until > status.server_time ? lease::State::cooldown
                                                                        : lease::State::free;
  if (!status.expires_at) return lease::State::unknown;  // only a hand-edited row
  return *status.expires_at > status.server_time ? lease::State::held : lease::State::expired;
}

TableLeaseStore::TableLeaseStore(std::unique_ptr<LockTable> table, Clock& clock)
    : table_(std::move(table)), clock_(clock) {}

Result<void> TableLeaseStore::connect() {
  const Call call(*table_);
  return table_->ensure_open(table_->connecting());
}

Result<AcquireOutcome> TableLeaseStore::try_acquire(const lease::AcquireRequest& request) {
  const Call call(*table_);
  const std::string attempt = attempt_to("acquire", request.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  // Any of the statements below may turn out to be the one that granted; the first send bounds them all.
  const BootTime sent_at = clock_.now();
  for (int round = 0; round < k_acquire_rounds; ++round) {
    DBLOCK_TRY(auto outcome, try_once(request, sent_at, attempt));
    if (outcome) return std::move(*outcome);
  }
  return not_settled(attempt, "it changed hands at every try");
}

Result<std::optional<AcquireOutcome>> TableLeaseStore::try_once(const lease::AcquireRequest& request,
                                                                BootTime sent_at,
                                                                const std::string& attempt) {
  DBLOCK_TRY(auto token, table_->grant(request, attempt));
  if (token) return granted(request, *token, sent_at, false);
  DBLOCK_TRY(auto seen, table_->look(request.key, attempt));
  if (!seen) {
    DBLOCK_TRY(token, table_->create(request, attempt));
    if (token) return granted(request, *token, sent_at, false);
    return std::nullopt;
  }
  // A proxy that replays statements reports 0 rows for a grant it made: the row tells (I5).
  if (seen->owner == request.owner.text) return granted(request, seen->token, sent_at, true);
  // Before the question who holds it: no end of a holder would change this answer.
  if (request.promises.once_per && seen->done_within(*request.promises.once_per))
    return lease::AlreadyDone{std::move(*seen)};
  if (seen->state == lease::State::unknown || seen->grantable_at() > seen->server_time)
    return Conflict{std::move(*seen)};
  return std::nullopt;
}

Result<std::optional<LockStatus>> TableLeaseStore::peek(const lease::Key& key) {
  const Call call(*table_);
  const std::string attempt = attempt_to("look at", key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  return table_->look(key, attempt);
}

Result<lease::RenewOutcome> TableLeaseStore::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                   std::optional<Micros> ttl) {
  const Call call(*table_);
  const std::string attempt = attempt_to("renew", ref.key);
  DBLOCK_CHECK(table_->ensure_open(attempt));
  const BootTime sent_at = clock_.now();
  DBLOCK_TRY(const auto renewal, table_->renew(ref, actor, ttl, attempt));
  if (!renewal) return why_not(ref, actor, true, attempt);
  lease::Renewed renewed{sent_at, renewal->ttl, renewal->expires_at.value_or(lease::ServerTime{})};
  if (actor == lease::Actor::script && !renewal->expires_at) {
    DBLOCK_TRY(const auto seen, table_->look(ref.key, attempt));
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
  DBLOCK_TRY(const bool released, table_->release(ref, actor, end, attempt));
  if (!released) return why_not(ref, actor, false, attempt);
  return lease::Released{};
}

Result<NotOurs> TableLeaseStore::why_not(const lease::LeaseRef& ref, lease::Actor actor, bool renewing,
                                         const std::string& attempt) {
  DBLOCK_TRY(auto seen, table_->look(ref.key, attempt));
  if (!seen) return NotOurs{NotOursWhy::absent, std::nullopt};
  const auto because = [&seen](NotOursWhy why) { return NotOurs{why, std::move(seen)}; };
  if (seen->owner.empty()) return because(NotOursWhy::free);
  if (seen->owner != ref.owner.text || (ref.token && seen->token != *ref.token))
    return because(NotOursWhy::other_holder);
  if (actor == lease::Actor::script && seen->kind == lease::Kind::run) return because(NotOursWhy::run_lease);
  if (renewing && seen->revoked_at) return because(NotOursWhy::revoked);
  if ((renewing || actor == lease::Actor::script) && passed(seen->expires_at, *seen))
    return because(NotOursWhy::expired);
  // The row says that the statement should have matched: an answer that contradicts itself is not believed.
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
  // Looked at before, so that the report names the holder who is affected and not a successor.
  DBLOCK_TRY(auto before, table_->look(key, attempt));
  using Why = ForceRefused::Why;
  if (!before || before->owner.empty()) return ForceRefused{Why::not_held, std::move(before)};
  if (before->token != token) return ForceRefused{Why::wrong_token, std::move(before)};
  DBLOCK_TRY(const bool changed, how == Force::revoke ? table_->revoke(key, token, attempt)
                                                      : table_->free_now(key, token, attempt));
  if (changed) {
    if (how == Force::revoke && !before->revoked_at) before->revoked_at = before->server_time;
    return lease::Revoked{std::move(*before)};
  }
  DBLOCK_TRY(auto after, table_->look(key, attempt));
  if (!after || after->owner.empty()) return ForceRefused{Why::not_held, std::move(after)};
  if (after->token != token) return ForceRefused{Why::wrong_token, std::move(after)};
  if (how == Force::free_now) return ForceRefused{Why::fresh_heartbeat, std::move(after)};
  return not_settled(attempt, "the server's answers contradict each other");
}

Result<lease::Listing> TableLeaseStore::list(const lease::Selection& selection) {
  const Call call(*table_);
  const std::string attempt = "cannot list locks";
  DBLOCK_CHECK(table_->ensure_open(attempt));
  return table_->list(selection, attempt);
}

Result<lease::ReapReport> TableLeaseStore::reap(const lease::ReapRequest& request) {
  const Call call(*table_);
  const std::string attempt = "cannot reap locks";
  DBLOCK_CHECK(table_->ensure_open(attempt));
  return table_->reap(request, attempt);
}

void TableLeaseStore::prepare_release() noexcept {
  table_->prepare_release();
}

lease::Turnstile* TableLeaseStore::turnstile() noexcept {
  return table_->turnstile();
}

void TableLeaseStore::disconnect() noexcept {
  table_->close();
}

void TableLeaseStore::interrupt() noexcept {
  table_->interrupt();
}

}  // namespace dblock::store
