// `dblock release`: give a script's lease back, or break someone else's by force, in two deliberate steps.
#include <algorithm>
#include <optional>
#include <utility>

#include "app/database.hpp"
#include "app/describe.hpp"
#include "app/use_cases.hpp"
#include "base/text.hpp"
#include "process/signals.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using Report = ReleaseReport;

constexpr int k_tries = 3;
constexpr Micros k_poll = 200ms;

lease::LockStatus nobody(const lease::Key& key) {
  lease::LockStatus status;
  status.key = key.bytes();
  return status;
}

Ending lost(std::string message) {
  return Ending{.how = Ending::How::lost, .message = std::move(message)};
}

// After a lost reply: the lock's last lease was given back, not left to expire, and that after we had asked
// for it. The answer of the second try alone would call a success what came too late: a lease that another
// had taken over is "not ours" as well. Beside others the lock's row does not tell.
bool was_our_release(const lease::NotOurs& why, Micros since_sent) {
  if (!why.status) return false;
  if (why.status->sharing.mode != lease::Mode::exclusive) return true;
  const auto& last = why.status->last;
  return last && last->outcome == lease::Outcome::released && last->released_at &&
         last->released_at->since_epoch >= why.status->server_time.since_epoch - since_sent;
}

Result<Report> give_back(const ReleaseRequest& request, lease::LeaseStore& store, Clock& clock) {
  const lease::LeaseRef ref{request.key, *request.owner, std::nullopt};
  const lease::RunEnd end{lease::Outcome::released, std::nullopt};
  bool reply_lost = false;
  const BootTime sent_at = clock.now();
  auto outcome = store.release(ref, lease::Actor::script, end);
  for (int i = 1; i < k_tries && !outcome && outcome.error().code == Errc::indeterminate; ++i) {
    reply_lost = true;
    outcome = store.release(ref, lease::Actor::script, end);
  }
  if (!outcome) return std::unexpected(outcome.error());
  Report report{Report::Action::released, nobody(request.key), "", {}};
  const auto* why = std::get_if<lease::NotOurs>(&*outcome);
  const auto since_sent = std::chrono::ceil<Micros>(clock.now() - sent_at);
  const bool done_before = reply_lost && why != nullptr && why->why != lease::NotOursWhy::run_lease &&
                           why->why != lease::NotOursWhy::expired && was_our_release(*why, since_sent);
  if (why == nullptr || done_before) return report;
  if (why->status) report.status = *why->status;
  const bool running = why->why == lease::NotOursWhy::run_lease;
  report.ending = Ending{
      .how = running ? Ending::How::refused : Ending::How::lost,
      .message = "lock " + quoted(request.key) + " " + describe_not_ours(*why) + "; nothing was released"};
  return report;
}

Result<Report> describe(const ReleaseRequest& request, lease::LeaseStore& store) {
  DBLOCK_TRY(auto listing, store.list({{request.key}, std::nullopt, false}));
  std::erase_if(listing.locks, [](const lease::LockStatus& row) { return row.owner.empty(); });
  const bool held = !listing.locks.empty();
  Report report{Report::Action::described, held ? listing.locks.front() : nobody(request.key), "", {}};
  report.ending.how = Ending::How::refused;
  if (report.status.owner.empty()) {
    report.action = Report::Action::released;  // no holder to describe
    report.ending.message = "nobody holds lock " + quoted(request.key) + "; there is nothing to release";
    return report;
  }
  report.next_command = "dblock release" + request.typed_store + " --key " +
                        shell_quote(request.key.bytes()) + " --force --token " +
                        std::to_string(report.status.token.value);
  report.ending.message = "nothing was changed; to revoke this lease: " + report.next_command;
  if (listing.locks.size() > 1) {
    report.ending.message += "; others hold the lock too (" + std::to_string(listing.locks.size() - 1) +
                             "), see them and their tokens with dblock inspect" + request.typed_store +
                             " --key " + shell_quote(request.key.bytes());
  }
  return report;
}

// After a revocation: until the holder has released, or its lease and margin have run out.
Result<Ending> await_end(const ReleaseRequest& request, lease::LeaseStore& store, Clock& clock,
                         const process::Signals& signals) {
  const WakeEvent never;
  const auto give_up =
      request.wait->limit ? std::optional(clock.now() + *request.wait->limit) : std::optional<BootTime>();
  for (;;) {
    // Among several holders it is the one of the token.
    DBLOCK_TRY(const auto listing, store.list({{request.key}, std::nullopt, false}));
    const auto status = std::ranges::find_if(listing.locks, [&request](const lease::LockStatus& row) {
      return !row.owner.empty() && row.token == *request.token;
    });
    if (status == listing.locks.end() || status->grantable_at() <= status->server_time) return Ending{};
    if (give_up && clock.now() >= *give_up) {
      return Ending{.how = Ending::How::held,
                    .number = 75,
                    .message = "revoked, but not yet given up: " + describe_conflict(*status)};
    }
    if (const int signal = signals.wait(never, clock.now() + k_poll); signal != 0) {
      return interrupted_by(signal, "while waiting for the holder of lock " + quoted(request.key) +
                                        " to end; its lease stays revoked");
    }
  }
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
  return Ending{.how = Ending::How::held,
                .number = 75,
                .message = "the holder's heartbeat is fresh, so it is alive and " + lock +
                           " is not freed under it; revoke it without --now instead. " +
                           describe_conflict(*refused.status)};
}

Result<Report> force(const ReleaseRequest& request, lease::LeaseStore& store, Clock& clock) {
  std::optional<process::Signals> signals;  // from before the revocation: its news must not get lost
  if (request.wait) signals.emplace();
  auto done =
      request.now ? store.free_now(request.key, *request.token) : store.revoke(request.key, *request.token);
  if (!done) return std::unexpected(done.error());
  Report report{request.now ? Report::Action::freed : Report::Action::revoked, nobody(request.key), "", {}};
  if (const auto* refused = std::get_if<lease::ForceRefused>(&*done)) {
    if (refused->status) report.status = *refused->status;
    report.ending = refusal(request, *refused);
    return report;
  }
  report.status = std::get<lease::Revoked>(*done).status;
  if (signals) {
    DBLOCK_TRY(report.ending, await_end(request, store, clock, *signals));
  }
  return report;
}

}  // namespace

Result<Report> release(const ReleaseRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const auto store = store::open_store(settings, {}, clock);
  if (request.force && !request.token) return describe(request, *store);
  auto report = request.force ? force(request, *store, clock) : give_back(request, *store, clock);
  store->record_ended();
  return report;
}

}  // namespace dblock::app
