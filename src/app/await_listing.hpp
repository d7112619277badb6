// Repeats a listing of locks until a judgement of it is good: `wait`, and --wait of `pause` and of
// `release --force` (private to the use cases).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "app/use_cases.hpp"
#include "process/signals.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

// Why the wait is not over yet.
struct NotYet {
  Ending ending;          // of a wait that ends now; its message is also told while the wait goes on
  bool for_good = false;  // to wait longer is of no use
};

struct ListingWait {
  InspectRequest listed;          // the locks to list
  std::string doing;              // for a wait that a signal ends
  std::string stays{};            // "the pause stays": what holds although the wait has ended too early
  std::optional<Micros> limit{};  // nullopt: for ever; 0: a single listing, however long it takes
  std::string_view limit_option = "--wait";                                 // `wait` calls it --timeout
  std::function<std::optional<NotYet>(const InspectReport&)> what_remains;  // nullopt: the wait is over
};

// Lists the locks at growing intervals until the judgement is good. Signals and the limit end the wait even
// while the database does not answer; an error that may pass is waited out. `signals` are made before the
// command's first statement, so that its result gets reported, and before any thread.
[[nodiscard]] Result<Ending> await_listing(const ListingWait& wait, const store::Settings& settings,
                                           const process::Signals& signals);

}  // namespace dblock::app
