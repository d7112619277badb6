// What is said of a database that keeps a subcommand waiting: which one it is, and how long dblock goes on.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.hpp"
#include "lease/session.hpp"
#include "store/config/settings.hpp"
#include "store/session_options.hpp"

namespace dblock::app {

// "still waiting for the database mysql://h/d, at most 10s", without a password.
[[nodiscard]] std::string describe_silence(const store::Settings& settings, const std::string& at_most);
// The same for statements of a session with these options: at most so long for each answer.
[[nodiscard]] std::string describe_silence(const store::Settings& settings,
                                           const store::SessionOptions& options = {});
// What follows where dblock tries again: for `limit`, which `option` sets; nullopt: for ever; 0: it does not.
[[nodiscard]] std::string describe_tries(std::optional<Micros> limit, std::string_view option);

// Says that an acquisition waits for the database, and for how long, unless something has been said of it:
// that the lock is held, or that a statement failed.
void say_no_answer(const lease::Session& session, const store::Settings& settings,
                   const store::SessionOptions& options, const lease::WaitPolicy& policy);

// For a subcommand that asks from its main thread. Once it has lived for process::k_silence, says what
// describe_silence() says. Its thread blocks the signals that its maker blocks: make it after
// process::Signals. `settings` outlive it.
class SilenceWatch {
 public:
  explicit SilenceWatch(const store::Settings& settings, const store::SessionOptions& options = {});
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;
  ~SilenceWatch();

 private:
  WakeEvent over_;
  std::thread thread_;
};

}  // namespace dblock::app
