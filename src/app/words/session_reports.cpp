#include "app/words/session_reports.hpp"

#include <chrono>
#include <string>
#include <utility>

#include "app/identity.hpp"
#include "app/words/describe.hpp"
#include "app/words/wait_display.hpp"
#include "base/log.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

constexpr Micros k_repeat_wait_log = 60s;

// Tells the user of the wait: by the live line at a terminal, elsewhere by a log line a minute.
class WaitReport {
 public:
  WaitReport(bool waits, const Clock& clock) : waits_(waits), clock_(clock) {}

  void refused_by(const lease::LockStatus& status) {
    warn_of_clocks(status);
    if (!waits_ || line_.show(status)) return;
    const BootTime now = clock_.now();
    if (said_at_ != BootTime{} && now - said_at_ < k_repeat_wait_log) return;
    said_at_ = now;
    log::info("waiting: " + describe_conflict(status));
  }

  void in_trouble() { line_.begin(); }
  void end() { line_.end(); }

 private:
  bool waits_;
  const Clock& clock_;
  BootTime said_at_{};
  WaitDisplay line_;
};

void say_trouble(const Error& error, bool first) {
  log::write(first ? log::Level::warning : log::Level::debug, error.message + "; trying again");
}

}  // namespace

lease::SessionEvents with_reports(const lease::WaitPolicy& policy, lease::SessionEvents events,
                                  const Clock& clock) {
  const auto report = std::make_shared<WaitReport>(!policy.once(), clock);
  events.acquiring.on_conflict = [report](const lease::LockStatus& holder) { report->refused_by(holder); };
  events.acquiring.on_wait = [inner = std::move(events.acquiring.on_wait)](const lease::LockStatus& holder) {
    warn_of_own_script(holder);
    if (inner) inner(holder);
  };
  events.acquiring.hopeless = blocked_by_ancestor;
  events.on_acquire_ended = [report] { report->end(); };
  events.on_lost = [inner = std::move(events.on_lost)](const lease::NotOurs& why) {
    if (why.status) warn_of_clocks(*why.status);
    if (inner) inner(why);
  };
  events.on_trouble = [report](const Error& error, bool first) {
    report->in_trouble();
    say_trouble(error, first);
  };
  events.on_recovered = [](int failures) {
    log::info("the lease is renewed again after " + std::to_string(failures) + " failed tries");
  };
  return events;
}

}  // namespace dblock::app
