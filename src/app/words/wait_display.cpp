#include "app/words/wait_display.hpp"

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "app/words/describe.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using std::chrono::floor;
using std::chrono::seconds;

std::string in_seconds(Micros time) {
  return time < 1s ? "0s" : format_age(floor<seconds>(time));
}

std::string free_in(Micros left) {
  return left > 0s ? ", free in " + in_seconds(left) : "";
}

std::string ordinal(std::size_t n) {
  const bool teen = n % 100 / 10 == 1;
  const char* const ending = teen || n % 10 > 3 || n % 10 == 0 ? "th"
                             : n % 10 == 1                     ? "st"
                             : n % 10 == 2                     ? "nd"
                                                               : "rd";
  return std::to_string(n) + ending;
}

}  // namespace

std::string describe_wait(const lease::LockStatus& status, Micros age, Micros waited) {
  const Micros now = status.server_time.since_epoch + age;
  std::string text = "waiting " + in_seconds(waited);
  if (status.position)
    text += ", " + ordinal(status.position->number) + " of " + std::to_string(status.position->of) + ",";
  text += " for " + quote_untrusted(status.key) + ": ";  // of several keys the one that was refused
  if (status.only_paused()) return text + lease::display_pause(*status.pause);
  if (status.waited_for || status.state == lease::State::free) return text + "others come first";
  const Micros until_free = status.grantable_at().since_epoch - now;
  if (status.owner.empty()) return text + "cooling down" + free_in(until_free);
  text += "held ";
  if (status.acquired_at) text += in_seconds(now - status.acquired_at->since_epoch) + " ";
  text += "by " + lease::display_holder(status) + describe_sharing(status);
  const std::string leftovers = describe_leftovers(status, now);
  if (!leftovers.empty()) text += ", " + leftovers;
  if (!status.expires_at) return text;
  const Micros until_expiry = status.expires_at->since_epoch - now;
  if (until_expiry > 0s)
    return text + ", expires in " + in_seconds(until_expiry) + (status.heartbeat ? " unless renewed" : "");
  // A lease with a heartbeat has most likely been renewed since `status` was read.
  if (status.heartbeat && status.state == lease::State::held) return text;
  return text + ", expired" + free_in(until_free);
}

// A thread that draws the line at once, and again after each further second of the wait.
class WaitDisplay::Ticker {
 public:
  Ticker(BootTime begun, WaitDisplay& line)
      : thread_([this, begun, &line] {
          do line.draw();
          while (!clock_.wait_until(next(begun), stop_));
        }) {}
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  ~Ticker() {
    stop_.raise();
    thread_.join();
  }

 private:
  [[nodiscard]] BootTime next(BootTime begun) const {
    return begun + floor<seconds>(clock_.now() - begun) + 1s;
  }

  SystemClock clock_;
  WakeEvent stop_;
  std::thread thread_;
};

WaitDisplay::WaitDisplay() = default;

WaitDisplay::~WaitDisplay() {
  end();
}

void WaitDisplay::begin() {
  const std::lock_guard lock(mutex_);
  if (!begun_) begun_ = BootClock::now();
}

bool WaitDisplay::show(const lease::LockStatus& status) {
  begin();
  if (!log::can_show_live()) return false;
  const std::lock_guard lock(mutex_);
  if (over_) return true;
  seen_ = {status, BootClock::now()};
  try {
    if (!ticker_) ticker_ = std::make_unique<Ticker>(*begun_, *this);
  } catch (const std::system_error&) {  // the system gives us no thread
    return false;
  }
  return true;
}

// Two threads may call this at once. The second may return before the ticker's thread has ended, but not
// before the line is cleared.
void WaitDisplay::end() {
  std::unique_ptr<Ticker> ticker;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    if (ticker_) log::clear_live();
    ticker = std::move(ticker_);
  }
}

void WaitDisplay::draw() {
  const std::lock_guard lock(mutex_);
  if (over_ || !seen_) return;
  const BootTime now = BootClock::now();
  const auto since = [now](BootTime then) { return std::chrono::duration_cast<Micros>(now - then); };
  log::show_live(describe_wait(seen_->status, since(seen_->at), since(*begun_)));
}

}  // namespace dblock::app
