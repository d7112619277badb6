// For cases that need another user or a file system of their own, and a preloaded library.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "support/config.hpp"
#include "support/process.hpp"

namespace dblock::test {

inline constexpr uid_t k_nobody = 65534;

// A directory that belongs to an ordinary user, with copies of the binaries under test that this user can
// reach: the build tree may lie where only root may go.
class UsersHome {
 public:
  explicit UsersHome(uid_t user = k_nobody);
  [[nodiscard]] uid_t user() const { return user_; }
  [[nodiscard]] std::string file(const std::string& name) const { return home_.file(name); }
  [[nodiscard]] const std::string& path() const { return home_.path(); }
  [[nodiscard]] std::string binary() const { return binaries_.file("dblock"); }
  // dblock as this user with HOME here, in this directory.
  [[nodiscard]] Spawn spawn(const std::vector<std::string>& arguments,
                            const std::vector<std::string>& env = {}) const;

 private:
  uid_t user_;
  TempDir binaries_, home_;
};

// Runs a shell script in a mount namespace of its own: what it mounts nobody else sees, and it goes with it.
[[nodiscard]] Finished in_mount_namespace(const std::string& script,
                                          const std::vector<std::string>& env = {});

// Why such a case cannot run here; "" when it can.
[[nodiscard]] std::string why_no_program(const std::string& name);
[[nodiscard]] std::string why_no_other_user();
[[nodiscard]] std::string why_no_mount_namespace();
[[nodiscard]] std::string why_no_preload();
[[nodiscard]] std::string why_no_faketime();

[[nodiscard]] const std::string& faketime_library();
// The environment of a program whose wall clock is shifted by this, "+1d". Its monotonic clocks are as well,
// for all who ask the C library.
[[nodiscard]] std::vector<std::string> clock_shifted_by(const std::string& shift);
// The library for programs with threads.
[[nodiscard]] std::string faketime_library_for_threads();
// The environment of a dblock that is refused what this variable says (failing_calls.cpp, odd_client.cpp).
[[nodiscard]] std::vector<std::string> refusing(const std::string& what);
// … whose calls of this function fail with this number of errno; `part`: only some of them.
[[nodiscard]] std::vector<std::string> failing(const std::string& call, int number,
                                               const std::string& part = "");

// The environment of programs whose clocks all run so many times as fast from now on (fast_clock.cpp).
[[nodiscard]] std::vector<std::string> clocks_times(long rate);

// The wall clock of the programs that get its environment is what it says.
class SteppedClock {
 public:
  SteppedClock() { step("+0"); }
  void step(const std::string& to) const;
  // `threads`: the program has some.
  [[nodiscard]] std::vector<std::string> env(bool threads, bool monotonic_too) const;

 private:
  TempDir directory_;
  std::string file_ = directory_.file("clock");
};

}  // namespace dblock::test

// Ends the case with a warning that CTest shows with the output of a failure and Catch always: a case that
// did not run must not look like one that passed.
#define DBLOCK_NEEDS(why_not)                                    \
  do {                                                           \
    if (const std::string reason = (why_not); !reason.empty()) { \
      WARN("NOT RUN: " << reason);                               \
      return;                                                    \
    }                                                            \
  } while (false)
