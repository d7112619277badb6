#include "support/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "support/config.hpp"

namespace dblock::test {
namespace {

// A short sweep is taken whole: a few steps of it would say nothing.
constexpr std::size_t k_least_steps = 10;

}  // namespace

std::vector<std::string> sweep(std::size_t trials, std::size_t at_once,
                               const std::function<std::string(std::size_t)>& trial) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (std::size_t i = 0; (i = next++) < trials;) {
      std::string failure;
      try {
        failure = trial(i);
      } catch (const std::exception& thrown) {
        failure = "trial " + std::to_string(i) + " threw: " + thrown.what();
      }
      if (failure.empty()) continue;
      const std::lock_guard lock(mutex);
      failures.push_back(std::move(failure));
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(trials, at_once); ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  return failures;
}

std::vector<std::size_t> share_of_steps(std::size_t count, std::size_t stride) {
  unsigned long first = 0, parts = 1;
  if (const char* const told = std::getenv("DBLOCK_TEST_SHARE")) {
    if (std::sscanf(told, "%lu/%lu", &first, &parts) != 2 || parts == 0)
      throw std::runtime_error("DBLOCK_TEST_SHARE is K/N, two numbers");
    if (parts > 1 && mysql_run()) parts *= 3;
    parts = std::clamp(count / (stride * k_least_steps), std::size_t{1}, std::size_t{parts});
  }
  std::vector<std::size_t> steps;
  for (std::size_t i = first % (parts * stride); i < count; i += parts * stride) steps.push_back(i);
  return steps;
}

std::string summary(const std::vector<std::string>& failures) {
  constexpr std::size_t shown = 5;
  std::string text = std::to_string(failures.size()) + " failed";
  for (std::size_t i = 0; i < std::min(shown, failures.size()); ++i) text += "\n- " + failures[i];
  return text;
}

}  // namespace dblock::test
