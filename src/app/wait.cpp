// `dblock wait`: repeats a judgement of `inspect` until it is good. Takes no lock, changes no row.
#include <algorithm>
#include <utility>

#include "app/database.hpp"
#include "app/inspector.hpp"
#include "app/use_cases.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "lease/backoff.hpp"
#include "process/signals.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_first_pause = 100ms;
constexpr Micros k_longest_pause = 2s;
constexpr double k_growth = 1.5;
constexpr Nanos k_say_again = 1min;
constexpr Nanos k_look_takes = 2s;  // longer than a healthy store takes

// What is still waited for. A single complaint says more than their number.
std::string reason(const InspectReport& report) {
  return report.complaints.size() == 1 ? report.complaints.front() : report.ending.message;
}

class Waiting {
 public:
  Waiting(const WaitRequest& request, store::Settings settings)
      : timeout_(request.timeout),
        inspector_(request.inspect, std::move(settings)),
        pauses_(k_first_pause, k_longest_pause, k_growth,
                static_cast<std::uint64_t>(begun_.time_since_epoch().count())) {}

  Result<Ending> go() {
    for (;;) {
      inspector_.ask();
      if (const auto stop = signals_.wait(inspector_.answered(), deadline())) return interrupted(*stop);
      if (!inspector_.answered().raised()) return no_answer();
      auto report = inspector_.answer();
      if (report && report->ending.how == Ending::How::success) return Ending{};
      if (!report && !may_pass(report.error())) return std::unexpected(std::move(report.error()));
      const BootTime now = clock_.now();
      if (timeout_ && now >= begun_ + *timeout_) return given_up(report);
      say(report, now);
      BootTime next = now + pauses_.next();
      if (timeout_) next = std::min(next, begun_ + *timeout_);
      if (const auto stop = signals_.wait(never_, next)) return interrupted(*stop);
    }
  }

 private:
  Ending interrupted(const process::Stop& stop) {
    return inspector_.end(interrupted_by(stop, "while waiting; no lock was taken"));
  }

  // A single look may take its time; else no look goes on beyond the limit, but each gets a moment.
  [[nodiscard]] std::optional<BootTime> deadline() const {
    if (!timeout_ || *timeout_ == Micros{0}) return std::nullopt;
    return std::max(begun_ + *timeout_, clock_.now() + k_look_takes);
  }

  Ending no_answer() {
    return inspector_.end(Ending::failed(
        {Errc::unreachable, "the database did not answer within --timeout " + format_duration(*timeout_)}));
  }

  Result<Ending> given_up(const Result<InspectReport>& report) const {
    if (!report) return std::unexpected(report.error());
    return Ending{
        .how = Ending::How::not_yet,
        .message = reason(*report) +
                   (*timeout_ == Micros{0} ? "" : "; waited for --timeout " + format_duration(*timeout_))};
  }

  // A failure is told once until the database answers again; a reason to wait once a minute.
  void say(const Result<InspectReport>& report, BootTime now) {
    if (!report) {
      if (!std::exchange(in_trouble_, true)) log::warning(report.error().message + "; trying again");
      return;
    }
    in_trouble_ = false;
    if (said_ && now < *said_ + k_say_again) return;
    said_ = now;
    log::info("waiting: " + reason(*report));
  }

  const process::Signals signals_;  // made before the inspector's thread, which inherits the signal mask
  const WakeEvent never_;
  const SystemClock clock_;
  const BootTime begun_ = clock_.now();
  const std::optional<Micros> timeout_;
  Inspector inspector_;
  lease::Backoff pauses_;
  std::optional<BootTime> said_;
  bool in_trouble_ = false;
};

}  // namespace

Result<Ending> wait(const WaitRequest& request) {
  DBLOCK_TRY(store::Settings settings, settings_from(request.inspect.database));
  return Waiting(request, std::move(settings)).go();
}

}  // namespace dblock::app
