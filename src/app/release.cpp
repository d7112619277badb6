// `dblock release`: releases a script's lease, or ends another holder's by force, in two deliberate steps.
#include <algorithm>
#include <optional>
#include <utility>

#include "app/await_listing.hpp"
#include "app/identity.hpp"
#include "app/silence_watch.hpp"
#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "app/words/describe.hpp"
#include "app/words/ending.hpp"
#include "base/duration.hpp"
#include "base/text.hpp"
#include "lease/release.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using Report = ReleaseReport;

constexpr Micros k_release_patience = 5s;  // how long to retry a release whose reply was lost

Report report_on(const lease::Key& key, Report::Action action) {
  return {action, key.bytes(), {}, {}};
}

Ending lost(std::string message) {
  return Ending{.how = Ending::How::lost, .message = std::move(message)};
}

Result<Report> release_own(const ReleaseRequest& request, const store::Settings& settings,
                           lease::LockBook& store, Clock& clock) {
  const SilenceWatch watch(settings);
  const lease::LeaseRef ref{request.key, *request.owner, std::nullopt};
  const lease::ReleaseOptions how{.actor = lease::Actor::script,
                                  .end = {lease::RunOutcome::released, std::nullopt},
                                  .give_up = clock.now() + k_release_patience,
                                  .insists = false};
  const WakeEvent never;
  auto tried = lease::release_with_retries(store, clock, ref, how, never);
  if (tried.failure) return std::unexpected(std::move(*tried.failure));
  Report report = report_on(request.key, Report::Action::released);
  if (tried.result == lease::ReleaseResult::released) return report;
  // An unknown outcome is no success either: the message tells the script who holds the lock now.
  const auto& why = *tried.refused;
  const bool not_a_scripts = why.why == lease::NotOursWhy::other_kind;
  report.ending = Ending{
      .how = not_a_scripts ? Ending::How::refused : Ending::How::lost,
      .message = "lock " + quoted(request.key) + " " + describe_not_ours(why) + "; nothing was released"};
  return report;
}

// Lists what --force --token could end: every lease and every cooldown, with the command for each.
Result<Report> describe(const ReleaseRequest& request, const store::Settings& settings,
                        lease::LockBook& store) {
  const SilenceWatch watch(settings);
  DBLOCK_TRY(auto listing, store.list({.keys = {request.key}, .held_only = false, .from_primary = true}));
  Report report = report_on(request.key, Report::Action::described);
  const std::string command = "dblock release" + request.typed_store + " --key " +
                              shell_quote(request.key.bytes()) + " --force --token ";
  for (auto& status : listing.locks) {
    if (status.refuses_requests())
      report.locks.push_back({status, command + std::to_string(status.token.value)});
  }
  if (report.locks.empty()) return report;
  const auto& first = report.locks.front().status;
  const std::string what =
      report.locks.size() == 1
          ? describe_conflict(first)
          : std::to_string(report.locks.size()) + " leases or cooldowns keep lock " + quoted(request.key);
  report.ending = Ending::held(what + "; nothing was changed; to end it, run the command on stdout");
  return report;
}

// After a revocation: waits until the holder has released, or its lease and lease margin have run out, or the
// limit of --wait has come. Of several holders, it is the one whose lease has the token. Then `now` says what
// has become of the lock.
Result<Ending> await_end(const ReleaseRequest& request, const store::Settings& settings,
                         const process::Signals& signals, std::string& now) {
  const auto what_remains = [&request, &now](const InspectReport& report) -> std::optional<NotYet> {
    const auto& locks = report.listing.locks;
    const auto status = std::ranges::find_if(locks, [&request](const lease::LockStatus& row) {
      return !row.owner.empty() && row.token == *request.token;
    });
    if (status != locks.end() && status->refuses_requests())
      return NotYet{.ending = Ending::held(describe_conflict(*status))};
    const bool free = report.ending.how == Ending::How::success;
    now = "its lease has ended, and " + (free ? "the lock is free" : report.ending.message);
    return std::nullopt;
  };
  const ListingWait wait{
      .listed = {.keys = {request.key}, .all = true, .exit_code = true, .from_primary = true},
      .doing = "while waiting for the holder of lock " + quoted(request.key) + " to end",
      .stays = "its lease stays revoked",
      .limit = request.wait->limit,
      .what_remains = what_remains};
  return await_listing(wait, settings, signals);
}

Ending refusal(const ReleaseRequest& request, const lease::ForceRefused& refused) {
  using Why = lease::ForceRefused::Why;
  const std::string lock = "lock " + quoted(request.key);
  if (refused.why == Why::not_held) return lost("nobody holds " + lock + "; there is nothing to release");
  if (refused.why == Why::wrong_token) {
    return lost("token " + std::to_string(request.token->value) +
                " is not the current one: " + describe_conflict(*refused.status) + ", token " +
                std::to_string(refused.status->token.value));
  }
  const lease::LockStatus& holder = *refused.status;
  const Micros every = holder.heartbeat.value_or(Micros{0});
  const Micros now = holder.server_time.since_epoch;
  const Micros age = std::max(now - (holder.renewed_at ? holder.renewed_at->since_epoch : now), Micros{0});
  const Micros rest = std::max(2 * every - age, Micros{0});
  return Ending::held(lock + " is not freed: the last heartbeat of its holder is " + format_age(age) +
                      " old, and one is due every " + format_age(every) +
                      ", so the holder may be alive. Without another heartbeat --now frees the lock in " +
                      format_age(rest) + ": try again then, or revoke it without --now. " +
                      describe_conflict(holder));
}

Result<Report> force(const ReleaseRequest& request, const store::Settings& settings, lease::LockBook& store) {
  std::optional<process::Signals> signals;  // made before the revocation, so that its result gets reported
  if (request.wait) signals.emplace();
  auto done = [&] {
    const SilenceWatch watch(settings);
    return request.now ? store.free_now(request.key, *request.token)
                       : store.revoke(request.key, *request.token,
                                      account_on_host(request.identity) + " (dblock release --force)");
  }();
  if (!done) return std::unexpected(done.error());
  Report report = report_on(request.key, Report::Action::revoked);
  if (const auto* refused = std::get_if<lease::ForceRefused>(&*done)) {
    report.ending = refusal(request, *refused);
    return report;
  }
  report.locks.push_back({std::get<lease::Revoked>(*done).status});
  // A cooldown has no holder to wait for: its lock is free at once.
  if (request.now || report.locks.front().status.owner.empty()) report.action = Report::Action::freed;
  if (signals) {
    store.end();
    store.disconnect();
    std::string now;
    DBLOCK_TRY(report.ending, await_end(request, settings, *signals, now));
    if (report.action == Report::Action::revoked) report.now = std::move(now);
  }
  return report;
}

}  // namespace

Result<Report> release(const ReleaseRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const auto store = store::open_store(settings, {}, clock);
  if (request.force && !request.token) return describe(request, settings, *store);
  auto report =
      request.force ? force(request, settings, *store) : release_own(request, settings, *store, clock);
  store->end();
  return report;
}

}  // namespace dblock::app
