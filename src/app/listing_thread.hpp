// Makes the listings of `inspect --watch` and await_listing() on a thread of its own, so that the caller's
// thread always answers signals and time limits.
#pragma once

#include <memory>

#include "app/use_cases.hpp"
#include "base/worker.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

// THREADING: one caller thread.
class ListingThread {
 public:
  // The caller has blocked its signals (process::Signals) before: the thread inherits the mask.
  ListingThread(const InspectRequest& request, store::Settings settings);

  // Begins a listing. REQUIRES: answered() is raised.
  void ask();
  // Raised while no listing is under way.
  [[nodiscard]] const WakeEvent& answered() const { return worker_.idle(); }
  // The answer to the last ask(), once. REQUIRES: answered() is raised.
  [[nodiscard]] Result<InspectReport> answer();

  // Breaks off the listing under way, if there is one. The ending says whether its thread was left behind.
  [[nodiscard]] Ending end(Ending ending = {});

 private:
  struct Question;
  std::shared_ptr<Question> question_;
  Worker worker_;
};

}  // namespace dblock::app
