#include "app/words/describe.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>

#include "app/identity.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "lease/owner_id.hpp"

namespace dblock::app {

using lease::LockStatus;
using lease::NotOursWhy;
using lease::State;

namespace {

constexpr std::string_view k_own_script =
    "; this script holds it itself (DBLOCK_OWNER), so waiting ends only when the script releases it: run the "
    "command without dblock, or after `dblock release`";

}  // namespace

std::string describe_sharing(const LockStatus& status) {
  switch (status.sharing.mode) {
    case lease::Mode::shared:
      return " as a reader";
    case lease::Mode::slot:
      return " in slot " + std::to_string(status.slot) + " of " + std::to_string(status.sharing.slots);
    default:
      return "";
  }
}

std::string quoted(const lease::Key& key) {
  return quote_untrusted(key.bytes());
}

std::string lock_names(const lease::Key& key, const std::vector<lease::Key>& further_keys) {
  std::string names = (further_keys.empty() ? "lock " : "locks ") + quoted(key);
  for (const auto& other : further_keys) names += ", " + quoted(other);
  return names;
}

std::string describe_cooldown(const LockStatus& status) {
  const std::string host = status.last ? escape_untrusted(status.last->host) : "";
  const auto outcome = status.last ? status.last->outcome : std::nullopt;
  const bool failed = outcome && lease::is_failure(*outcome);
  return format_age(status.grantable_at().since_epoch - status.server_time.since_epoch) + ", after " +
         (host.empty() ? "the last " : host + "'s ") + (status.kind == lease::Kind::run ? "run" : "lease") +
         (failed ? ", which failed (--keep-on-failure or --min-hold)" : " (--min-hold)");
}

std::string describe_own_end(const lease::Timing& timing) {
  return "frees itself within " + format_duration(timing.ttl + timing.margin);
}

std::string describe_leftovers(const LockStatus& status, Micros now) {
  if (!status.waits_for_leftovers()) return "";
  return "its command ended " + format_age(now - status.job_ended_at->since_epoch) +
         " ago, and it waits for the leftovers";
}

namespace {

std::string describe_holders(const LockStatus& status) {
  const std::string lock = "lock " + quote_untrusted(status.key);
  const auto since = [&](const std::optional<lease::ServerTime>& then) {
    return format_age(then ? status.server_time.since_epoch - then->since_epoch : Micros{0});
  };
  const std::string until = format_age(status.grantable_at().since_epoch - status.server_time.since_epoch);
  if (status.kept_by_transaction) {
    const std::string last =
        status.owner.empty() ? " is free" : ": the lease of " + display_holder(status) + " has ended";
    return lock + last +
           ", but a transaction that is protected by dblock_assert_held() is still open on the server";
  }
  if (status.waited_for) return "others wait for " + lock + " and come first";
  if (status.state == State::free) return lock + " is free";
  if (status.owner.empty()) return lock + " is cooling down for another " + describe_cooldown(status);
  std::string text = lock + " is held by " + display_holder(status) + describe_sharing(status);
  if (!status.holder.command.empty()) text += " (" + escape_untrusted(status.holder.command) + ")";
  text += " for " + since(status.acquired_at);
  if (!status.holder.note.empty()) text += ", note: " + escape_untrusted(status.holder.note);
  const std::string leftovers = describe_leftovers(status, status.server_time.since_epoch);
  if (!leftovers.empty()) text += "; " + leftovers;
  if (status.state == State::expired)
    return text + "; its lease has expired and can be taken over in " + until;
  if (status.state == State::unknown) return text + "; its row does not tell when its lease ends";
  return text + "; its lease runs out in " +
         format_age((status.expires_at ? status.expires_at->since_epoch : Micros{0}) -
                    status.server_time.since_epoch) +
         (status.heartbeat ? " unless renewed" : "");
}

}  // namespace

std::string describe_conflict(const LockStatus& status) {
  if (!status.pause) return describe_holders(status);
  const std::string pause = lease::display_pause(*status.pause);
  if (status.only_paused()) return "lock " + quote_untrusted(status.key) + " is " + pause;
  return describe_holders(status) + "; no new grants either, " + pause;
}

std::string describe_line(const lease::OwnerId& left_line_to, lease::Line line) {
  const std::string run = left_line_to.text.empty() ? "" : ": " + lease::display_owner(left_line_to.text);
  if (line == lease::Line::newest) return "; a newer run has come" + run + " (--line newest)";
  return "; another run waits already" + run + " (--line one)";
}

void warn_of_own_script(const LockStatus& status) {
  static std::atomic<bool> said = false;
  if (!status.only_paused() && held_by_own_script(status) && !said.exchange(true))
    log::warning("waiting for lock " + quote_untrusted(status.key) + std::string(k_own_script));
}

std::string describe_refusal(const LockStatus& status, bool waited) {
  std::string text = describe_conflict(status);
  if (status.only_paused()) return waited ? text : text + " (--wait D waits for the end of the pause)";
  if (held_by_own_script(status)) return text + std::string(k_own_script);
  if (!blocked_by_ancestor(status)) {
    if (!waited) text += "; --wait D waits for it";
    if (status.state != State::cooldown) return text;
    return text + "; to end it, see `dblock release --force --key " + shell_quote(status.key) + "`";
  }
  text += "; this process is part of a run that holds it, so that waiting would never end";
  if (std::getenv("DBLOCK_HELD") == nullptr)
    return text +
           ". To run under its lock, keep DBLOCK_HELD in the environment (sudo --preserve-env=DBLOCK_HELD)";
  return text +
         ". Only `dblock run` joins it, without --no-reentrant, with the same kind of lock and with no key "
         "that "
         "the outer run does not hold";
}

std::string describe_done(const LockStatus& status, Micros period) {
  const auto then = status.last_success ? status.last_success->acquired_at : std::nullopt;
  const Micros age = status.server_time.since_epoch - then.value_or(status.server_time).since_epoch;
  return "the job under key " + quote_untrusted(status.key) + " last succeeded in a run that began " +
         format_age(age) + " ago, so it is not started again (--once-per " + format_duration(period) + ")";
}

std::string kind_of_holder(const lease::NotOurs& refused) {
  const bool of_application = refused.status && refused.status->kind == lease::Kind::sql;
  return of_application ? "an application" : "a running job";
}

std::string describe_not_ours(const lease::NotOurs& refused) {
  if (!refused.status) return "has no row: nobody holds it";
  const LockStatus& row = *refused.status;
  switch (refused.why) {
    case NotOursWhy::free:
      return "is free: it was released, reaped or freed by force";
    case NotOursWhy::other_holder:
      return "is held by " + display_holder(row) + " (owner " + escape_untrusted(row.owner) + ")";
    case NotOursWhy::expired:
      return "has expired";
    case NotOursWhy::revoked:
      if (!row.revoked_by.empty()) return "was revoked by " + escape_untrusted(row.revoked_by);
      return "was revoked with `dblock release --force`";
    case NotOursWhy::absent:
    case NotOursWhy::nested:
    case NotOursWhy::other_kind:
      break;
  }
  return "is held by " + kind_of_holder(refused) + "; use --force";
}

void warn_if_slow(std::string_view what, const std::string& locks, Nanos took, Micros limit) {
  if (took <= limit) return;
  log::warning(std::string(what) + " " + locks + " took " +
               format_age(std::chrono::duration_cast<Micros>(took)));
}

namespace {

// How far the holder's last write lies ahead of the clock of the server that read the row. The clock of the
// server that wrote the row is at least that far ahead.
Micros written_ahead(const LockStatus& status) {
  lease::ServerTime latest = status.server_time;
  for (const auto& time : {status.acquired_at, status.renewed_at}) {
    if (time) latest = std::max(latest, *time);
  }
  return latest.since_epoch - status.server_time.since_epoch;
}

}  // namespace

void warn_of_clocks(const LockStatus& status) {
  static std::atomic<bool> said = false;
  const Micros ahead = written_ahead(status);
  if (ahead <= status.margin || said.exchange(true)) return;
  log::warning(
      "lock " + quote_untrusted(status.key) + " was last written " +
      format_duration(std::chrono::floor<std::chrono::milliseconds>(ahead)) +
      " ahead of the clock of the server that answers us, and its margin is " +
      format_duration(status.margin) +
      ": a lease may be taken over before its end until the servers' clocks agree (or was this one's "
      "set back?)");
}

}  // namespace dblock::app
