#include "store/mariadb/lease_store.hpp"

#include <utility>

#include "base/text.hpp"
#include "store/mariadb/factory.hpp"
#include "store/mariadb/reaper.hpp"
#include "store/mariadb/statements.hpp"

namespace dblock::store::mariadb {
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

MariadbLeaseStore::MariadbLeaseStore(const Settings& settings, const SessionOptions& options, Clock& clock)
    : connection_(settings, options, SchemaCheck::on), clock_(clock) {}

Result<void> MariadbLeaseStore::connect() {
  const Connection::Call call(connection_);
  return connection_.ensure_open("cannot connect to the database");
}

Result<AcquireOutcome> MariadbLeaseStore::try_acquire(const lease::AcquireRequest& request) {
  const Connection::Call call(connection_);
  const std::string attempt = attempt_to("acquire", request.key);
  DBLOCK_CHECK(connection_.ensure_open(attempt));
  // Any of the statements below may turn out to be the one that granted; the first send bounds them all.
  const BootTime sent_at = clock_.now();
  for (int round = 0; round < k_acquire_rounds; ++round) {
    DBLOCK_TRY(auto outcome, try_once(request, sent_at, attempt));
    if (outcome) return std::move(*outcome);
  }
  return not_settled(attempt, "it changed hands at every try");
}

Result<std::optional<AcquireOutcome>> MariadbLeaseStore::try_once(const lease::AcquireRequest& request,
                                                                  BootTime sent_at,
                                                                  const std::string& attempt) {
  DBLOCK_TRY(const auto changed, connection_.change(grant_statement(request), attempt));
  if (changed.rows == 1) return granted(request, {changed.insert_id}, sent_at, false);
  DBLOCK_TRY(auto seen, look(request.key, attempt));
  if (!seen) return try_create(request, sent_at, attempt);
  // A proxy that replays statements reports 0 rows for a grant it made: the row tells (I5).
  if (seen->owner == request.owner.text) return granted(request, seen->token, sent_at, true);
  if (seen->state == lease::State::unknown || seen->grantable_at() > seen->server_time)
    return Conflict{std::move(*seen)};
  return std::nullopt;
}

Result<std::optional<AcquireOutcome>> MariadbLeaseStore::try_create(const lease::AcquireRequest& request,
                                                                    BootTime sent_at,
                                                                    const std::string& attempt) {
  auto created = connection_.change(create_statement(request), attempt);
  if (created) return granted(request, {created->insert_id}, sent_at, false);
  if (created.error().native == k_duplicate_key) return std::nullopt;
  return std::unexpected(std::move(created.error()));
}

Result<std::optional<LockStatus>> MariadbLeaseStore::peek(const lease::Key& key) {
  const Connection::Call call(connection_);
  const std::string attempt = attempt_to("look at", key);
  DBLOCK_CHECK(connection_.ensure_open(attempt));
  return look(key, attempt);
}

Result<std::optional<LockStatus>> MariadbLeaseStore::look(const lease::Key& key, const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection_.read(peek_statement(key), attempt));
  if (rows.empty()) return std::nullopt;
  return read_status(rows.front());
}

Result<lease::RenewOutcome> MariadbLeaseStore::renew(const lease::LeaseRef& ref, lease::Actor actor,
                                                     std::optional<Micros> ttl) {
  const Connection::Call call(connection_);
  const std::string attempt = attempt_to("renew", ref.key);
  DBLOCK_CHECK(connection_.ensure_open(attempt));
  const BootTime sent_at = clock_.now();
  DBLOCK_TRY(const auto changed, connection_.change(renew_statement(ref, actor, ttl), attempt));
  if (changed.rows == 0) return why_not(ref, actor, true, attempt);
  const Micros length = ttl ? *ttl : Micros{static_cast<Micros::rep>(changed.insert_id)};
  lease::Renewed renewed{sent_at, length, {}};
  if (actor == lease::Actor::script) {
    DBLOCK_TRY(const auto seen, look(ref.key, attempt));
    if (!seen || seen->owner != ref.owner.text) return why_not(ref, actor, true, attempt);
    renewed.expires_at = seen->expires_at.value_or(lease::ServerTime{});
  }
  return renewed;
}

Result<lease::ReleaseOutcome> MariadbLeaseStore::release(const lease::LeaseRef& ref, lease::Actor actor,
                                                         lease::RunEnd end) {
  const Connection::Call call(connection_);
  const std::string attempt = attempt_to("release", ref.key);
  DBLOCK_CHECK(connection_.ensure_open(attempt));
  DBLOCK_TRY(const auto changed, connection_.change(release_statement(ref, actor, end), attempt));
  if (changed.rows == 0) return why_not(ref, actor, false, attempt);
  return lease::Released{};
}

Result<NotOurs> MariadbLeaseStore::why_not(const lease::LeaseRef& ref, lease::Actor actor, bool renewing,
                                           const std::string& attempt) {
  DBLOCK_TRY(auto seen, look(ref.key, attempt));
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

Result<ForceOutcome> MariadbLeaseStore::revoke(const lease::Key& key, lease::Token token) {
  return force(key, token, revoke_statement(key, token), false, attempt_to("revoke", key));
}

Result<ForceOutcome> MariadbLeaseStore::free_now(const lease::Key& key, lease::Token token) {
  return force(key, token, free_now_statement(key, token), true, attempt_to("free", key));
}

Result<ForceOutcome> MariadbLeaseStore::force(const lease::Key& key, lease::Token token,
                                              const std::string& sql, bool now, const std::string& attempt) {
  const Connection::Call call(connection_);
  DBLOCK_CHECK(connection_.ensure_open(attempt));
  // Looked at before, so that the report names the holder who is affected and not a successor.
  DBLOCK_TRY(auto before, look(key, attempt));
  using Why = ForceRefused::Why;
  if (!before || before->owner.empty()) return ForceRefused{Why::not_held, std::move(before)};
  if (before->token != token) return ForceRefused{Why::wrong_token, std::move(before)};
  DBLOCK_TRY(const auto changed, connection_.change(sql, attempt));
  if (changed.rows == 1) {
    if (!now && !before->revoked_at) before->revoked_at = before->server_time;
    return lease::Revoked{std::move(*before)};
  }
  DBLOCK_TRY(auto after, look(key, attempt));
  if (!after || after->owner.empty()) return ForceRefused{Why::not_held, std::move(after)};
  if (after->token != token) return ForceRefused{Why::wrong_token, std::move(after)};
  if (now) return ForceRefused{Why::fresh_heartbeat, std::move(after)};
  return not_settled(attempt, "the server's answers contradict each other");
}

Result<lease::Listing> MariadbLeaseStore::list(const lease::Selection& selection) {
  const Connection::Call call(connection_);
  const std::string attempt = "cannot list locks";
  DBLOCK_CHECK(connection_.ensure_open(attempt));
  DBLOCK_TRY(const auto rows, connection_.read(list_statement(selection), attempt));
  lease::Listing listing;
  listing.locks.reserve(rows.size());
  for (const auto& row : rows) listing.locks.push_back(read_status(row));
  if (!rows.empty()) {
    listing.server_time = listing.locks.front().server_time;
    return listing;
  }
  DBLOCK_TRY(const auto time, connection_.read(server_time_statement(), attempt));
  if (!time.empty()) listing.server_time = {Micros{number(time.front().front())}};
  return listing;
}

Result<lease::ReapReport> MariadbLeaseStore::reap(const lease::ReapRequest& request) {
  const Connection::Call call(connection_);
  const std::string attempt = "cannot reap locks";
  DBLOCK_CHECK(connection_.ensure_open(attempt));
  return reap_with(connection_, request, attempt);
}

void MariadbLeaseStore::disconnect() noexcept {
  connection_.close();
}

void MariadbLeaseStore::interrupt() noexcept {
  connection_.interrupt();
}

std::unique_ptr<lease::LeaseStore> make_lease_store(const Settings& settings, const SessionOptions& options,
                                                    Clock& clock) {
  return std::make_unique<MariadbLeaseStore>(settings, options, clock);
}

}  // namespace dblock::store::mariadb
