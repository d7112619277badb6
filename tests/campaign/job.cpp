// The job of a campaign's runs: job HISTORY DIRECTORY OP MODE SLOTS HOLD_MS HABIT
// It locks its keys' files, tells when it begins and ends, gives signs of life and writes to the fenced
// store. HABIT: plain; stubborn (ignores TERM); family (has a child that ignores TERM and lives as long).
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <string>
#include <vector>

#include "campaign/witness.hpp"

namespace {

using namespace dblock::campaign;

constexpr long k_tick_ms = 20;
constexpr int k_ticks_a_write = 10;

struct Job {
  History history;
  std::string directory;
  int op;
  std::string mode;
  int slots;
  long hold_ms;
  std::string habit;
};

std::vector<std::string> lines_of(const char* variable) {
  const char* const value = std::getenv(variable);
  std::istringstream in(value == nullptr ? "" : value);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void sleep_ms(long ms) {
  timespec left{ms / 1000, ms % 1000 * 1'000'000};
  while (::nanosleep(&left, &left) != 0) {
  }
}

void begin(const Job& job, const std::vector<std::string>& keys, const std::vector<long long>& tokens) {
  const char* const variable = std::getenv("DBLOCK_SLOT");
  const int slot = job.mode == "slots" && variable != nullptr ? std::atoi(variable) : 0;
  for (const std::string& key : keys) {
    if (!lock_key(job.directory, key, job.mode, slot))
      job.history.add({.kind = "beside", .t = now(), .op = job.op, .key = key});
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const long long token = i < tokens.size() ? tokens[i] : 0;
    job.history.add({.kind = "begin",
                     .t = now(),
                     .op = job.op,
                     .slots = job.slots,
                     .slot = slot,
                     .token = token,
                     .key = keys[i],
                     .mode = job.mode});
  }
}

int work(const Job& job) {
  const auto keys = lines_of("DBLOCK_KEY");
  std::vector<long long> tokens;
  for (const std::string& line : lines_of("DBLOCK_TOKEN")) tokens.push_back(std::atoll(line.c_str()));
  LifeFile life = LifeFile::for_job(job.directory, job.op);
  if (!life.lock()) job.history.add({.kind = "beside", .t = now(), .op = job.op, .key = "its own run"});
  if (job.habit != "plain") ::signal(SIGTERM, SIG_IGN);
  begin(job, keys, tokens);
  const bool child = job.habit == "family" && ::fork() == 0;
  if (job.habit == "family" && !child) ::signal(SIGTERM, SIG_DFL);
  const Nanos until = now() + job.hold_ms * 1'000'000;
  for (int tick = 0; now() < until; ++tick) {
    life.sign(now());
    if (!child && job.mode == "exclusive" && tick % k_ticks_a_write == 0) {
      for (std::size_t i = 0; i < keys.size(); ++i)
        write_fenced(job.directory, job.history, job.op, keys[i], tokens.at(i));
    }
    sleep_ms(std::min(k_tick_ms, job.hold_ms));
  }
  if (child) ::_exit(0);
  job.history.add({.kind = "end", .t = now(), .op = job.op});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) return 64;
  return work({History(argv[1]), argv[2], std::atoi(argv[3]), argv[4], std::atoi(argv[5]), std::atol(argv[6]),
               argv[7]});
}
