// How a process ended, decoded from a wait status once and for all.
#pragma once

namespace dblock::process {

struct ExitStatus {
  bool signalled = false;
  int number = 0;  // exit code 0-255, or the signal that killed it

  [[nodiscard]] static ExitStatus from_wait(int wait_status);
  [[nodiscard]] bool success() const { return !signalled && number == 0; }
  bool operator==(const ExitStatus&) const = default;
};

}  // namespace dblock::process
