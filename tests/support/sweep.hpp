// Many trials of one kind, several at a time, each on a thread of its own: most of their time is waiting.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace dblock::test {

// What came of one trial.
struct Verdict {
  // Whether the fault met its step. On a busy machine a run takes fewer steps than the one that was recorded.
  bool struck = true;
  std::string wrong{};  // empty: nothing
};

struct Swept {
  std::size_t trials = 0;
  std::size_t struck = 0;
  std::vector<std::string> failures{};  // one entry for each trial that failed
  std::chrono::milliseconds took{};
};
// "1 of 2 harmed, in 3 ms"
std::ostream& operator<<(std::ostream& out, const Swept& swept);

// `trial` is told its number, from 0, and must not use Catch, which is for one thread. A trial that struck
// nothing is made again, three times in all. An exception counts as a failure.
[[nodiscard]] Swept sweep(std::size_t trials, std::size_t at_once,
                          const std::function<Verdict(std::size_t)>& trial);

// The number of each `stride`-th of `count` steps, from 0; DBLOCK_TEST_FULL=1 takes every step.
[[nodiscard]] std::vector<std::size_t> steps_of(std::size_t count, std::size_t stride = 1);

// The first few failures, and how many there are.
[[nodiscard]] std::string summary(const std::vector<std::string>& failures);

}  // namespace dblock::test
