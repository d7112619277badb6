#include "app/await_listing.hpp"

#include <algorithm>
#include <utility>

#include "app/listing_thread.hpp"
#include "app/silence_watch.hpp"
#include "app/store_access.hpp"
#include "app/words/ending.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "lease/backoff.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_first_gap = 100ms;
constexpr Micros k_longest_gap = 2s;
constexpr double k_growth = 1.5;
constexpr Nanos k_say_again = 1min;
constexpr Nanos k_look_takes = 2s;  // longer than a healthy store takes

class ListingLoop {
 public:
  ListingLoop(const ListingWait& wait, const store::Settings& settings, const process::Signals& signals)
      : wait_(wait),
        settings_(settings),
        signals_(signals),
        listing_thread_(wait.listed, settings),
        gaps_(k_first_gap, k_longest_gap, k_growth,
              static_cast<std::uint64_t>(begun_.time_since_epoch().count())) {}

  Result<Ending> go() {
    for (;;) {
      listing_thread_.ask();
      if (const auto stop =
              signals_.wait(listing_thread_.answered(), answer_by(), -1, [this] { say_silence(); }))
        return interrupted(*stop);
      if (!listing_thread_.answered().raised()) return no_answer();
      if (auto over = heed(listing_thread_.answer())) return std::move(*over);
      BootTime next = clock_.now() + gaps_.next();
      if (limit_) next = std::min(next, *limit_);
      if (const auto stop = signals_.wait(never_, next)) return interrupted(*stop);
    }
  }

 private:
  [[nodiscard]] bool looks_once() const { return wait_.limit == Micros{0}; }

  // A single look may take its time; else no look goes on beyond the limit, but each gets a moment.
  [[nodiscard]] std::optional<BootTime> answer_by() const {
    if (!limit_ || looks_once()) return std::nullopt;
    return std::max(*limit_, clock_.now() + k_look_takes);
  }

  // nullopt: the wait goes on.
  std::optional<Result<Ending>> heed(Result<InspectReport> report) {
    const BootTime now = clock_.now();
    const bool last = limit_ && now >= *limit_;
    if (!report) {
      if (last || !may_pass(report.error())) return given_up(std::move(report.error()));
      if (!std::exchange(in_trouble_, true)) log::warning(report.error().message + "; trying again");
      return std::nullopt;
    }
    in_trouble_ = false;
    auto not_yet = wait_.what_remains(*report);
    if (!not_yet) return Ending{};
    if (not_yet->for_good) return std::move(not_yet->ending);
    if (last) return given_up(std::move(not_yet->ending));
    say("waiting: " + not_yet->ending.message, said_, now);
    return std::nullopt;
  }

  // Says the same once a minute. `said`: when it was said last.
  static void say(const std::string& what, std::optional<BootTime>& said, BootTime now) {
    if (said && now < *said + k_say_again) return;
    said = now;
    log::info(what);
  }

  // While looks fail, a warning has said so.
  void say_silence() {
    if (in_trouble_) return;
    say(describe_silence(settings_) + describe_tries(wait_.limit, wait_.limit_option), said_silence_,
        clock_.now());
  }

  [[nodiscard]] Result<Ending> given_up(Ending ending) const {
    if (!looks_once()) ending.message += "; waited for " + limit_option();
    ending.message += what_stays();
    return ending;
  }

  [[nodiscard]] Result<Ending> given_up(Error error) const {
    error.message += what_stays();
    return std::unexpected(std::move(error));
  }

  Ending no_answer() {
    return listing_thread_.end(Ending::failed(
        {Errc::unreachable, "the database did not answer at the end of " + limit_option() + what_stays()}));
  }

  Ending interrupted(const process::Stop& stop) {
    return listing_thread_.end(interrupted_by(stop, wait_.doing + what_stays()));
  }

  [[nodiscard]] std::string limit_option() const {
    return std::string(wait_.limit_option) + " " + format_duration(*wait_.limit);
  }
  [[nodiscard]] std::string what_stays() const { return wait_.stays.empty() ? "" : "; " + wait_.stays; }

  const ListingWait& wait_;
  const store::Settings& settings_;
  const process::Signals& signals_;
  const WakeEvent never_;
  const SystemClock clock_;
  const BootTime begun_ = clock_.now();
  const std::optional<BootTime> limit_ = wait_.limit ? std::optional(begun_ + *wait_.limit) : std::nullopt;
  ListingThread listing_thread_;
  lease::Backoff gaps_;
  std::optional<BootTime> said_;
  std::optional<BootTime> said_silence_;
  bool in_trouble_ = false;
};

}  // namespace

Result<Ending> await_listing(const ListingWait& wait, const store::Settings& settings,
                             const process::Signals& signals) {
  return ListingLoop(wait, settings, signals).go();
}

}  // namespace dblock::app
