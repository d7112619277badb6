// `dblock inspect`: reports locks and their holders. Takes no lock, changes no row.
#include <algorithm>
#include <utility>
#include <variant>

#include "app/database.hpp"
#include "app/inspect_report.hpp"
#include "app/use_cases.hpp"
#include "app/words/describe.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

const lease::LockStatus* find(const lease::Listing& listing, const lease::Key& key) {
  const auto it = std::ranges::find(listing.locks, key.bytes(), &lease::LockStatus::key);
  return it == listing.locks.end() ? nullptr : &*it;
}

// --exit-code: ends as held at the first listed lock that an exclusive acquire could not get now.
Ending check_held(const lease::Listing& listing) {
  for (const auto& status : listing.locks) {
    if (status.grantable_at() <= listing.server_time) continue;
    return Ending{.how = Ending::How::held, .number = 75, .message = describe_conflict(status)};
  }
  return {};
}

// The clocks of a cluster's servers may differ by less than the lease margin.
constexpr Micros k_clock_skew = 3s;

std::vector<std::string> stale_keys(const InspectRequest& request, const lease::Listing& listing) {
  std::vector<std::string> lines;
  for (const lease::Key& key : request.keys) {
    const auto* status = find(listing, key);
    if (status == nullptr || !status->last_success || !status->last_success->released_at) {
      lines.push_back("no job under key " + quoted(key) + " is known to have succeeded");
      continue;
    }
    const Micros age = listing.server_time.since_epoch - status->last_success->released_at->since_epoch;
    const bool ahead = age < -std::max(lease::OncePer{*request.max_age}.look_ahead(), k_clock_skew);
    if (age < *request.max_age && !ahead) continue;
    const std::string when = lease::format_time(*status->last_success->released_at);
    if (ahead) {
      lines.push_back("the last success under key " + quoted(key) + " is dated ahead of the clock, at " +
                      when + ": was the clock set back?");
    } else {
      lines.push_back("the last success under key " + quoted(key) + " was " + format_age(age) + " ago, at " +
                      when);
    }
  }
  return lines;
}

constexpr std::size_t k_most_counted = 1000;

// "no lock is held; --all shows 1 cooling down, 12 free". Counts the locks that are not held, since an empty
// answer may be due to a mistyped key.
std::string describe_nothing(const InspectRequest& request, lease::LeaseStore& store) {
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
  const bool judged = request.exit_code || request.max_age;
  return {request.keys, request.prefix, !request.all && !judged};
}

InspectReport report_on(lease::Listing listing, const InspectRequest& request,
                        const store::Settings& settings) {
  InspectReport report;
  if (const auto* const file = std::get_if<store::SqliteSettings>(&settings)) {
    report.local_store = file->display();
  }
  if (request.exit_code) report.ending = check_held(listing);
  if (request.max_age) {
    report.stale = stale_keys(request, listing);
    if (!report.stale.empty() && report.ending.how == Ending::How::success) {
      report.ending = Ending{.how = Ending::How::stale,
                             .message = std::to_string(report.stale.size()) + " of " +
                                        std::to_string(request.keys.size()) + " keys had no success within " +
                                        format_duration(*request.max_age)};
    }
  }
  if (!request.all)
    std::erase_if(listing.locks, [](const lease::LockStatus& s) { return s.state != lease::State::held; });
  report.listing = std::move(listing);
  return report;
}

Result<InspectReport> inspect(const InspectRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const auto store = store::open_store(settings, {.reads_only = true}, clock);
  DBLOCK_TRY(lease::Listing listing, store->list(selection_of(request)));
  const bool nothing = listing.locks.empty() && selection_of(request).held_only;
  InspectReport report = report_on(std::move(listing), request, settings);
  if (nothing && log::shows(log::Level::info)) report.notice = describe_nothing(request, *store);
  return report;
}

}  // namespace dblock::app
