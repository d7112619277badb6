#include "app/silence_watch.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <variant>

#include "base/duration.hpp"
#include "base/log.hpp"
#include "process/signals.hpp"

namespace dblock::app {

std::string describe_silence(const store::Settings& settings, const std::string& at_most) {
  return "still waiting for the database " + store::display(settings) + ", at most " + at_most;
}

std::string describe_silence(const store::Settings& settings, const store::SessionOptions& options) {
  Micros most = options.network_timeout;
  if (const auto* const server = std::get_if<store::MariadbSettings>(&settings))
    most = std::max<Micros>(most, server->connect_timeout);
  return describe_silence(
      settings,
      format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(most)) + " for each answer");
}

std::string describe_tries(std::optional<Micros> limit, std::string_view option) {
  if (!limit) return ", and again until it answers";
  if (*limit == Micros{0}) return "";
  return ", and " + std::string(option) + " " + format_duration(*limit) + " in all";
}

void say_no_answer(const lease::Session& session, const store::Settings& settings,
                   const store::SessionOptions& options, const lease::WaitPolicy& policy) {
  if (session.waited() > std::chrono::milliseconds{0} || !session.trouble().empty()) return;
  const std::string tries = policy.retry && !policy.once()
                                ? ", and --attempts " + std::to_string(policy.retry->attempts) + " in all"
                                : describe_tries(policy.once() ? Micros{0} : policy.limit, "--wait");
  log::info(describe_silence(settings, options) + tries);
}

SilenceWatch::SilenceWatch(const store::Settings& settings, const store::SessionOptions& options) {
  if (!log::shows(log::Level::info)) return;
  try {
    thread_ = std::thread([this, &settings, options] {
      SystemClock clock;
      if (!clock.wait_until(clock.now() + process::k_silence, over_))
        log::info(describe_silence(settings, options));
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
