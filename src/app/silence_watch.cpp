#include "app/silence_watch.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <variant>

#include "base/duration.hpp"
#include "base/log.hpp"
#include "process/signals.hpp"
#include "store/session_options.hpp"

namespace dblock::app {
namespace {

std::string describe_silence(const store::Settings& settings) {
  Micros most = store::SessionOptions{}.network_timeout;
  if (const auto* const server = std::get_if<store::MariadbSettings>(&settings))
    most = std::max<Micros>(most, server->connect_timeout);
  return "still waiting for the database " + store::display(settings) + ", at most " +
         format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(most)) + " for each answer";
}

}  // namespace

SilenceWatch::SilenceWatch(const store::Settings& settings) {
  if (!log::shows(log::Level::info)) return;
  try {
    thread_ = std::thread([this, &settings] {
      SystemClock clock;
      if (!clock.wait_until(clock.now() + process::k_silence, over_)) log::info(describe_silence(settings));
    });
    // NOLINTNEXTLINE(bugprone-empty-catch): the system gives us no thread, and the work goes on without one
  } catch (const std::system_error&) {
  }
}

SilenceWatch::~SilenceWatch() {
  over_.raise();
  if (thread_.joinable()) thread_.join();
}

}  // namespace dblock::app
