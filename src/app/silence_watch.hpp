// Tells the user that the database keeps a subcommand waiting that asks it from its main thread.
#pragma once

#include <thread>

#include "base/clock.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

// Once it has lived for process::k_silence, says which database is waited for, and how long at most. Its
// thread blocks the signals that its maker blocks: make it after process::Signals. `settings` outlive it.
class SilenceWatch {
 public:
  explicit SilenceWatch(const store::Settings& settings);
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;
  ~SilenceWatch();

 private:
  WakeEvent over_;
  std::thread thread_;
};

}  // namespace dblock::app
