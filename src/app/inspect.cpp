// `dblock inspect`: reports locks and their holders. Takes no lock, changes no row.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "app/inspect_report.hpp"
#include "app/silence_watch.hpp"
#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "app/words/describe.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "lease/line.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

const lease::LockStatus* find(const lease::Listing& listing, const std::string& key) {
  const auto it = std::ranges::lower_bound(listing.locks, key, {}, &lease::LockStatus::key);
  return it == listing.locks.end() || it->key != key ? nullptr : &*it;
}

// The keys that a judgement is about: those named, or all known ones under the prefix.
std::vector<std::string> judged_keys(const InspectRequest& request, const lease::Listing& listing) {
  std::vector<std::string> keys;
  for (const lease::Key& key : request.keys) keys.push_back(key.bytes());
  if (!keys.empty()) return keys;
  for (const auto& lock : listing.locks) {
    if (keys.empty() || keys.back() != lock.key) keys.push_back(lock.key);
  }
  return keys;
}

// --exit-code: ends as held at the first key that an exclusive acquire could not get now.
Ending check_held(const InspectRequest& request, const lease::Listing& listing) {
  for (const auto& status : listing.locks) {
    if (status.refuses_requests() || status.kept_by_transaction)
      return Ending::held(describe_conflict(status));
    if (status.waiters && !status.waiters->empty() && !lease::long_free(status)) {
      auto lined = status;
      lined.waited_for = true;
      return Ending::held(describe_conflict(lined));
    }
  }
  for (const auto& key : judged_keys(request, listing)) {
    for (const auto& pause : listing.pauses) {
      if (pause.scope.covers(key))
        return Ending::held("lock " + quote_untrusted(key) + " is " + lease::display_pause(pause));
    }
  }
  return {};
}

// Whether the pause covers a lock that the request selects.
bool concerns(const lease::Pause& pause, const InspectRequest& request) {
  if (request.keys.empty()) return !request.prefix || pause.scope.meets({*request.prefix, true});
  return std::ranges::any_of(request.keys,
                             [&](const lease::Key& key) { return pause.scope.covers(key.bytes()); });
}

// The clocks of a cluster's servers may differ by less than the lease margin.
constexpr Micros k_clock_skew = 3s;

// The complaint about a key whose last success is too old, or empty. `status`: null where the key has no row.
std::string complaint_of_age(const std::string& key, const lease::LockStatus* status, Micros now,
                             Micros max_age) {
  const std::string name = quote_untrusted(key);
  if (status == nullptr || !status->last_success || !status->last_success->released_at)
    return "no job under key " + name + " is known to have succeeded";
  const Micros age = now - status->last_success->released_at->since_epoch;
  const std::string when = lease::format_time(*status->last_success->released_at);
  if (age < -std::max(lease::OncePer{max_age}.look_ahead(), k_clock_skew)) {
    return "the last success under key " + name + " is dated ahead of the clock, at " + when +
           ": was the clock set back?";
  }
  if (age < max_age) return "";
  return "the last success under key " + name + " was " + format_age(age) + " ago, at " + when;
}

using KeySet = std::set<std::string, std::less<>>;

// --max-age: a complaint about each key without a success that is young enough. `named`: those keys.
void judge_age(const InspectRequest& request, InspectReport& report, KeySet& named) {
  const auto keys = judged_keys(request, report.listing);
  for (const auto& key : keys) {
    auto complaint = complaint_of_age(key, find(report.listing, key), report.listing.server_time.since_epoch,
                                      *request.max_age);
    if (complaint.empty()) continue;
    report.complaints.push_back(std::move(complaint));
    named.insert(key);
  }
  const std::size_t bad = report.complaints.size();
  if (keys.empty())
    report.complaints.push_back("no key that starts with " + quote_untrusted(*request.prefix) + " is known");
  if (report.complaints.empty()) return;
  report.ending = Ending{.how = Ending::How::stale, .message = report.complaints.front()};
  if (keys.empty()) return;
  report.ending.message = std::to_string(bad) + " of " + std::to_string(keys.size()) +
                          " keys had no success within " + format_duration(*request.max_age);
}

// --max-held: a complaint about each holder that has had its lock for longer.
void judge_held(const InspectRequest& request, InspectReport& report) {
  for (const auto& status : report.listing.locks) {
    if (status.state != lease::State::held || !status.acquired_at) continue;
    const Micros held = report.listing.server_time.since_epoch - status.acquired_at->since_epoch;
    if (held > *request.max_held) report.complaints.push_back(describe_conflict(status));
  }
  if (report.complaints.empty()) return;
  report.ending = Ending{.how = Ending::How::overdue,
                         .message = "locks held for longer than " + format_duration(*request.max_held) +
                                    ": " + std::to_string(report.complaints.size())};
}

// --max-failures: a complaint about each key under which so many runs failed in a row. `named`: those keys.
void judge_failures(const InspectRequest& request, InspectReport& report, KeySet& named) {
  for (const auto& key : judged_keys(request, report.listing)) {
    const auto* const status = find(report.listing, key);
    const std::uint32_t failures = status != nullptr && status->last ? status->last->failures : 0;
    if (failures >= *request.max_failures) {
      report.complaints.push_back("runs under key " + quote_untrusted(key) +
                                  " that failed in a row: " + std::to_string(failures));
      named.insert(key);
    }
  }
  if (report.complaints.empty()) return;
  report.ending = Ending{.how = Ending::How::failing,
                         .message = "keys under which the last " + std::to_string(*request.max_failures) +
                                    " runs failed: " + std::to_string(report.complaints.size())};
}

// Names the keys of the request, or its prefix, under which no lock is known: they may be mistyped. Empty if
// there is none.
std::string describe_unknown(const InspectRequest& request, const lease::Listing& listing) {
  if (request.prefix && listing.locks.empty())
    return "no key that starts with " + quote_untrusted(*request.prefix) + " is known; is it spelt right?";
  std::string names;
  for (const lease::Key& key : request.keys) {
    if (find(listing, key.bytes()) == nullptr) names += (names.empty() ? "" : ", ") + quoted(key);
  }
  if (names.empty()) return "";
  return "no lock is known under key " + names + (request.exit_code ? ", so it counts as free" : "") +
         "; is the key spelt right?";
}

constexpr std::size_t k_most_counted = 1000;

// "no lock is held; --all shows 1 cooling down, 12 free". Counts the locks that are not held, since an empty
// answer may be due to a mistyped key.
std::string describe_nothing(const InspectRequest& request, lease::LockBook& store) {
  using lease::State;
  const lease::Selection all{request.keys, request.prefix, false, k_most_counted};
  const auto listing = store.list(all);
  std::string counts;
  if (!listing) return "no lock is held";  // so much is known from the listing before
  for (const auto& [state, words] : {std::pair{State::expired, " expired"},
                                     {State::cooldown, " cooling down"},
                                     {State::free, " free"},
                                     {State::unknown, " unknown"}}) {
    const auto count = std::ranges::count(listing->locks, state, &lease::LockStatus::state);
    if (count > 0) counts += (counts.empty() ? "; --all shows " : ", ") + std::to_string(count) + words;
  }
  return "no lock is held" + counts + (listing->locks.size() < k_most_counted ? "" : " and more");
}

}  // namespace

lease::Selection selection_of(const InspectRequest& request) {
  const bool judged = request.exit_code || request.max_age || request.max_failures;
  return {.keys = request.keys,
          .prefix = request.prefix,
          .held_only = !request.all && !judged,
          .from_primary = request.from_primary,
          .with_pauses = true,
          .with_transactions = request.exit_code};
}

InspectReport report_on(lease::Listing listing, const InspectRequest& request,
                        const store::Settings& settings) {
  InspectReport report;
  if (const auto* const file = std::get_if<store::SqliteSettings>(&settings)) {
    report.local_store = file->display();
  }
  report.listing = std::move(listing);
  if (request.exit_code) {
    report.ending = check_held(request, report.listing);
    report.notice = describe_unknown(request, report.listing);
  }
  KeySet named;  // by complaints; listed whether held or not
  if (request.max_age) judge_age(request, report, named);
  if (request.max_held) judge_held(request, report);
  if (request.max_failures) {
    judge_failures(request, report, named);
    if (report.complaints.empty()) report.notice = describe_unknown(request, report.listing);
  }
  std::erase_if(report.listing.pauses, [&](const lease::Pause& pause) { return !concerns(pause, request); });
  if (!request.all) {
    std::erase_if(report.listing.locks, [&named](const lease::LockStatus& s) {
      return s.state != lease::State::held && !named.contains(s.key);
    });
  }
  return report;
}

Result<InspectReport> inspect(const InspectRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const auto store = store::open_store(settings, {.reads_only = true}, clock);
  const SilenceWatch watch(settings);
  DBLOCK_TRY(lease::Listing listing, store->list(selection_of(request)));
  const bool nothing = listing.locks.empty() && selection_of(request).held_only;
  InspectReport report = report_on(std::move(listing), request, settings);
  if (nothing && log::shows(log::Level::info)) report.notice = describe_nothing(request, *store);
  return report;
}

}  // namespace dblock::app
