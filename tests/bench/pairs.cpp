// bench_pairs [--pairs N] [--warmup N] A [ARG...] ::: B [ARG...]
//
// Times two commands against each other: A B, B A, A B, ... so that drift of the machine and the order within
// a pair weigh on both alike. Prints one line:
//   median and quartiles of A in ms, the same of B, ratio of the medians, median and quartiles of the
//   pairwise ratios
// Output of the commands is thrown away; a command that does not return 0 ends the benchmark.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Command = std::vector<char*>;  // ends with a null pointer, as posix_spawn wants it

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "bench_pairs: %s\n", message.c_str());
  std::exit(1);
}

int read_count(const char* text) {
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || count < 1 || count > 1'000'000)
    fail(std::string("not a count: ") + text);
  return static_cast<int>(count);
}

// Wall time in milliseconds from spawn to the end of the process.
double time_once(const Command& command, posix_spawn_file_actions_t& quiet) {
  pid_t pid = 0;
  int status = 0;
  const auto start = std::chrono::steady_clock::now();
  const int error = posix_spawnp(&pid, command.front(), &quiet, nullptr, command.data(), environ);
  if (error != 0) fail(std::string(command.front()) + ": " + std::strerror(error));
  if (wait4(pid, &status, 0, nullptr) != pid) fail("wait4 failed");
  const auto end = std::chrono::steady_clock::now();
  if (status != 0) fail(std::string(command.front()) + " ended with wait status " + std::to_string(status));
  return std::chrono::duration<double, std::milli>(end - start).count();
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double share = place - static_cast<double>(below);
  return values[below] * (1 - share) + values[above] * share;
}

void print_spread(const std::vector<double>& values) {
  std::printf("%.3f %.3f %.3f ", quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75));
}

}  // namespace

int main(int argc, char** argv) {
  int pairs = 200;
  int warmup = 10;
  int next = 1;
  while (next + 1 < argc && std::strncmp(argv[next], "--", 2) == 0) {
    const std::string option = argv[next];
    if (option != "--pairs" && option != "--warmup") fail("unknown option " + option);
    (option == "--pairs" ? pairs : warmup) = read_count(argv[next + 1]);
    next += 2;
  }

  Command a;
  Command b;
  Command* current = &a;
  for (; next < argc; ++next) {
    if (std::strcmp(argv[next], ":::") == 0) {
      current = &b;
    } else {
      current->push_back(argv[next]);
    }
  }
  if (a.empty() || b.empty()) fail("usage: bench_pairs [--pairs N] [--warmup N] A [ARG...] ::: B [ARG...]");
  a.push_back(nullptr);
  b.push_back(nullptr);

  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);

  std::vector<double> times_a;
  std::vector<double> times_b;
  std::vector<double> ratios;
  for (int i = -warmup; i < pairs; ++i) {
    const bool b_first = i % 2 != 0;
    double time_b = b_first ? time_once(b, quiet) : 0;
    const double time_a = time_once(a, quiet);
    if (!b_first) time_b = time_once(b, quiet);
    if (i < 0) continue;
    times_a.push_back(time_a);
    times_b.push_back(time_b);
    ratios.push_back(time_a / time_b);
  }
  print_spread(times_a);
  print_spread(times_b);
  std::printf("%.3f ", quantile(times_a, 0.5) / quantile(times_b, 0.5));
  print_spread(ratios);
  std::printf("\n");
  return 0;
}
