// Waits for the end of holders whose end the user has ordered or waits for: `release --force` and `pause`
// (private to the use cases).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/use_cases.hpp"
#include "process/signals.hpp"
#include "store/config/settings.hpp"

namespace dblock::app {

struct HoldersLeft {
  Ending ending;          // of a wait that ends now
  bool for_good = false;  // to wait longer is of no use
};

struct HoldersWait {
  InspectRequest listed;        // the locks to list
  std::optional<Micros> limit;  // of --wait; nullopt: for ever
  std::string doing;            // "while …", for a wait that a signal ends
  // What a listing says; nullopt: no holder is left.
  std::function<std::optional<HoldersLeft>(const lease::Listing&)> left;
};

// Lists the locks until no holder is left. Signals and the limit end the wait even while the database does
// not answer; an error that may pass is waited out. `signals` are made before the command's first statement,
// so that its result gets reported.
[[nodiscard]] Result<Ending> await_holders(const HoldersWait& wait, const store::Settings& settings,
                                           const process::Signals& signals);

}  // namespace dblock::app
