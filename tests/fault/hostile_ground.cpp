// The kernel refuses system calls of one kind to dblock and its guardian: the disk is full, the table of
// files is full, no memory or process is to be had, or a sandbox knows no new calls. Each call of a run is
// refused once, alone, and with all that come after it. Then the job has run whole under its lock, or dblock
// does not say that it has; nothing is left behind; and the lock is free unless dblock says that it may not
// be.
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <mutex>
#include <optional>
#include <utility>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/overlap.hpp"
#include "support/privilege.hpp"
#include "support/sweep.hpp"
#include "support/tracer.hpp"

namespace dblock::test {
namespace {

struct Want {
  const char* what;
  int error;
  std::vector<long> calls;
};

const Want k_no_space{"no space on the disk",
                      ENOSPC,
                      {SYS_write, SYS_pwrite64, SYS_fsync, SYS_fdatasync, SYS_ftruncate, SYS_fallocate}};
const Want k_no_files{"no room in the table of files",
                      EMFILE,
                      {SYS_openat, SYS_socket, SYS_pipe2, SYS_eventfd2, SYS_timerfd_create, SYS_signalfd4,
                       SYS_epoll_create1, SYS_dup, SYS_dup3, SYS_pidfd_open, SYS_memfd_create}};
const Want k_no_memory{"no memory", ENOMEM, {SYS_mmap, SYS_mremap, SYS_mprotect, SYS_brk}};
const Want k_no_processes{"no process", EAGAIN, {SYS_clone, SYS_clone3}};
const Want k_sandbox{
    "no new system calls", ENOSYS, {SYS_pidfd_open, SYS_pidfd_send_signal, SYS_clone3, SYS_close_range}};

std::string why_no_refusals() {
#ifdef __x86_64__
  return why_no_trace();
#else
  return "calls are refused on x86-64 alone";
#endif
}

// One run in such a world.
class HostileRun {
 public:
  HostileRun(const Database& database, std::string key, const Want& want, int number, bool lasting)
      : number_(number),
        lasting_(lasting),
        database_(database),
        key_(std::move(key)),
        run_(dblock_spawn(database_,
                          run_words(key_, {"--ttl", "1h", "--status-file", directory_.file("status")},
                                    interval_job(directory_.file("log"), 20))),
             Refusal{want.calls, want.error, number, lasting}) {
    run_.run_to({});
    exit_ = run_.process().wait(60s * slowness());
  }

  // How many calls a run makes to which nothing is refused.
  [[nodiscard]] int made_undisturbed() {
    INFO(run_.process().err());
    REQUIRE(exit_ == exited(0));
    return run_.made();
  }
  [[nodiscard]] bool struck() const { return run_.refused() > 0; }

  // What is wrong with its end; empty: nothing.
  std::string judge() {
    const auto jobs = read_intervals(directory_.file("log"));
    const bool began = !jobs.empty();
    const bool whole = began && jobs.front().end_ns != 0;
    std::string wrong;
    if (jobs.size() > 1) wrong += "; the job ran twice";
    if (exit_ == exited(0) && !whole) wrong += "; it says that the job ran, and it did not";
    if (whole && !may_end_after_job()) wrong += "; the job ran, and it ended with " + to_string(exit_);
    // Without its first memory the loader dies before the program begins.
    const bool by_loader = number_ <= 1 && !began;
    // Without any from then on the C++ library has none for an exception, and aborts in its place.
    const bool cannot_tell = lasting_ && !began && exit_ == killed_by(SIGABRT);
    if (!whole && exit_.signalled && !by_loader && !cannot_tell)
      wrong += "; it was killed: " + to_string(exit_);
    if (!began && said("job") && said("stopped")) wrong += "; it tells of a job that never began";
    if (!soon_gone(run_.process())) wrong += "; somebody is left of the tree";
    wrong += judge_lock();
    return wrong.empty() ? "" : to_string(exit_) + wrong + "\n  it said: " + run_.process().err();
  }

 private:
  // The job's own end, or dblock's word that it no longer knew whether the lock was held, or could not go on.
  [[nodiscard]] bool may_end_after_job() const {
    return exit_ == exited(0) || exit_ == exited(76) || exit_ == exited(70) || exit_ == exited(69);
  }
  // A lock that the run has not given back is its own until the lease ends, and dblock has said so. Any other
  // is there for the next run.
  std::string judge_lock() {
    const Exit next = run_true(database_, key_);
    const bool stays = said("is left to expire");
    if (next == exited(0)) return stays ? "; the lock is free, and dblock says that it stays held" : "";
    if (next != exited(75)) return "; the next run ended with " + to_string(next);
    if (!stays && !said("frees itself within")) return "; the lock is held, and nothing is said of it";
    static std::mutex one_at_a_time;  // on a server all runs have one database
    const std::lock_guard lock(one_at_a_time);
    if (database_.column(key_, "holder_pid") != std::to_string(run_.dblock()))
      return "; the lock is held by another";
    const std::chrono::microseconds left(database_.expires_micros(key_) - realtime_micros());
    if (left <= 0s || left > 1h) return "; the lease ends in " + std::to_string(left.count()) + " us";
    return says(read_file(directory_.file("status")), "\"released\"") ? "; its status file says released"
                                                                      : "";
  }
  [[nodiscard]] bool said(const std::string& word) { return says(run_.process().err(), word); }

  const int number_;
  const bool lasting_;
  TempDir directory_;
  const Database& database_;
  const std::string key_;
  TracedRun run_;
  Exit exit_;
};

// CI takes some steps of each kind, and on a server three of each; DBLOCK_TEST_FULL=1 takes all. On the
// embedded store each run has a file of its own, which refusals may harm.
void refuse_each(const Want& want, std::size_t stride) {
  std::optional<Database> shared;
  if (!local_run()) shared.emplace();
  std::atomic<int> keys = 0;
  const auto hostile_run = [&](int number, bool lasting, auto&& then) {
    std::optional<Database> own;
    if (!shared) own.emplace();
    HostileRun run(own ? *own : *shared, "k" + std::to_string(++keys), want, number, lasting);
    return then(run);
  };
  const auto calls =
      static_cast<std::size_t>(hostile_run(-1, false, [](auto& run) { return run.made_undisturbed(); }));
  REQUIRE(calls > 0);
  const auto steps = steps_of(calls, shared ? std::max<std::size_t>(calls / 3, 1) : stride);
  const auto judged = [&](HostileRun& run, int number, bool lasting) -> Verdict {
    if (!run.struck()) return {.struck = false};
    const std::string wrong = run.judge();
    if (wrong.empty()) return {};
    return {.wrong = std::string(want.what) + (lasting ? " from call " : " for call ") +
                     std::to_string(number) + ": " + wrong};
  };
  const Swept swept = sweep(2 * steps.size(), 4, [&](std::size_t i) -> Verdict {
    const auto number = static_cast<int>(steps[i / 2]);
    const bool lasting = i % 2 == 1;
    return hostile_run(number, lasting, [&](HostileRun& run) { return judged(run, number, lasting); });
  });
  std::cout << want.what << ": " << calls << " calls, " << swept << "\n";
  INFO(summary(swept.failures));
  CHECK(swept.failures.empty());
  CHECK(swept.struck > 0);
}

TEST_CASE(
    "a disk that is full at any write of a run: the job runs under its lock, or dblock says that it did not",
    "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_refusals());
  refuse_each(k_no_space, 3);
}

TEST_CASE(
    "a full table of files at any step of a run: the job runs under its lock, or dblock says that it did not",
    "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_refusals());
  refuse_each(k_no_files, 9);
}

TEST_CASE(
    "no memory and no process at any step of a run: the job runs under its lock, or dblock says that it did "
    "not",
    "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_refusals());
  refuse_each(k_no_memory, 19);
  refuse_each(k_no_processes, 1);
}

TEST_CASE("a sandbox without pidfds and clone3: the job runs under its lock, or dblock says that it did not",
          "[mariadb][sweep][safety]") {
  DBLOCK_NEEDS(why_no_refusals());
  refuse_each(k_sandbox, 1);
}

}  // namespace
}  // namespace dblock::test
