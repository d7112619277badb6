#include "support/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <ostream>
#include <thread>

#include "support/config.hpp"

namespace dblock::test {
namespace {

constexpr int k_tries = 3;

Verdict tried(std::size_t number, const std::function<Verdict(std::size_t)>& trial) {
  try {
    for (int left = k_tries;; --left) {
      Verdict made = trial(number);
      if (made.struck || !made.wrong.empty() || left == 1) return made;
    }
  } catch (const std::exception& thrown) {
    return {.wrong = "trial " + std::to_string(number) + " threw: " + thrown.what()};
  }
}

}  // namespace

Swept sweep(std::size_t trials, std::size_t at_once, const std::function<Verdict(std::size_t)>& trial) {
  const auto begun = std::chrono::steady_clock::now();
  Swept swept{.trials = trials};
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t i = 0; (i = next++) < trials;) {
      Verdict made = tried(i, trial);
      const std::lock_guard lock(mutex);
      if (made.struck) ++swept.struck;
      if (!made.wrong.empty()) swept.failures.push_back(std::move(made.wrong));
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(trials, at_once); ++i) threads.emplace_back(work);
  }
  swept.took =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
  return swept;
}

std::ostream& operator<<(std::ostream& out, const Swept& swept) {
  return out << swept.struck << " of " << swept.trials << " harmed, in " << swept.took.count() << " ms";
}

std::vector<std::size_t> steps_of(std::size_t count, std::size_t stride) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < count; i += full_run() ? 1 : stride) steps.push_back(i);
  return steps;
}

std::string summary(const std::vector<std::string>& failures) {
  constexpr std::size_t shown = 5;
  std::string text = std::to_string(failures.size()) + " failed";
  for (std::size_t i = 0; i < std::min(shown, failures.size()); ++i) text += "\n- " + failures[i];
  return text;
}

}  // namespace dblock::test
