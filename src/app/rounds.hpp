// Work that a command repeats at an interval, until a signal ends the command.
#pragma once

#include <functional>

#include "app/words/ending.hpp"
#include "base/clock.hpp"

namespace dblock::app {

// Does `round` now and then every `every`, until `round` fails, or `ended_before` a time says that a signal
// has come. The interval counts from the beginning of a round. So rounds that were missed, because one took
// longer or the process was frozen, are not made up for.
inline Result<Ending> in_rounds(Micros every, const Clock& clock, const std::function<Result<void>()>& round,
                                const std::function<bool(BootTime)>& ended_before) {
  for (;;) {
    const BootTime next = clock.now() + every;
    DBLOCK_CHECK(round());
    if (ended_before(next)) return Ending{};
  }
}

}  // namespace dblock::app
