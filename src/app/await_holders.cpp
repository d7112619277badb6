#include "app/await_holders.hpp"

#include <algorithm>
#include <utility>

#include "app/database.hpp"
#include "app/inspector.hpp"
#include "app/words/ending.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_poll = 200ms;
constexpr Nanos k_look_takes = 2s;  // longer than a healthy store takes

}  // namespace

Result<Ending> await_holders(const HoldersWait& wait, const store::Settings& settings,
                             const process::Signals& signals) {
  const SystemClock clock;
  const WakeEvent never;
  std::optional<BootTime> give_up;
  if (wait.limit) give_up = clock.now() + *wait.limit;
  Inspector inspector(wait.listed, settings);
  bool in_trouble = false;
  for (;;) {
    inspector.ask();
    std::optional<BootTime> answer_by;
    if (give_up && *wait.limit > Micros{0}) answer_by = std::max(*give_up, clock.now() + k_look_takes);
    if (const auto stop = signals.wait(inspector.answered(), answer_by))
      return inspector.end(interrupted_by(*stop, wait.doing));
    if (!inspector.answered().raised()) {
      return inspector.end(
          Ending::failed({Errc::unreachable, wait.doing + ": the database did not answer within --wait " +
                                                 format_duration(*wait.limit)}));
    }
    auto report = inspector.answer();
    const bool last = give_up && clock.now() >= *give_up;
    if (!report && (last || !may_pass(report.error()))) return std::unexpected(std::move(report.error()));
    if (!report && !std::exchange(in_trouble, true)) log::warning(report.error().message + "; trying again");
    if (report) {
      in_trouble = false;
      auto left = wait.left(report->listing);
      if (!left) return Ending{};
      if (left->for_good || last) return std::move(left->ending);
    }
    if (const auto stop = signals.wait(never, clock.now() + k_poll))
      return inspector.end(interrupted_by(*stop, wait.doing));
  }
}

}  // namespace dblock::app
