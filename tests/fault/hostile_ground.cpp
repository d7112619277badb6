// The kernel refuses system calls of one kind to dblock and its guardian: the disk is full, the table of
// files is full, no memory or process is to be had, or a sandbox knows no new calls. Each call of a run is
// refused once, alone, and with all that come after it. Then the job has run whole under its lock, or dblock
// does not say that it has; and nothing is left behind.
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <iostream>

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
  HostileRun(const Want& want, int number, bool lasting)
      : number_(number),
        run_(dblock_spawn(database_,
                          run_words("k", {"--ttl", "1h", "--status-file", directory_.file("status")},
                                    interval_job(directory_.file("log"), 20))),
             Refusal{want.calls, want.error, number, lasting}) {
    run_.run_to({});
    exit_ = run_.process().wait(60s * slowness());
  }

  [[nodiscard]] int made() const { return run_.made(); }
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
    // Without any memory the loader dies before the program begins.
    const bool by_loader = number_ == 0 && !began;
    if (!whole && exit_.signalled && !by_loader) wrong += "; it was killed: " + to_string(exit_);
    if (!began && said("job") && said("stopped")) wrong += "; it tells of a job that never began";
    if (!soon_gone(run_.process())) wrong += "; somebody is left of the tree";
    // A lease that could not be released runs to its end, which the last words must tell.
    if (database_.has_holder("k") && !said("releas") && !said("expire"))
      wrong += "; the lock is held, and nothing is said of it";
    return wrong.empty() ? "" : to_string(exit_) + wrong + "\n  it said: " + run_.process().err();
  }

 private:
  // The job's own end, or dblock's word that it no longer knew whether the lock was held, or could not go on.
  [[nodiscard]] bool may_end_after_job() const {
    return exit_ == exited(0) || exit_ == exited(76) || exit_ == exited(70) || exit_ == exited(69);
  }
  [[nodiscard]] bool said(const std::string& word) { return says(run_.process().err(), word); }

  const int number_;
  TempDir directory_;
  Database database_;
  TracedRun run_;
  Exit exit_;
};

// CI takes some steps of each kind; DBLOCK_TEST_FULL=1 takes all.
void refuse_each(const Want& want, std::size_t stride) {
  const auto calls = static_cast<std::size_t>(HostileRun(want, -1, false).made());
  REQUIRE(calls > 0);
  const auto steps = steps_of(calls, stride);
  const Swept swept = sweep(2 * steps.size(), 4, [&](std::size_t i) -> Verdict {
    const auto number = static_cast<int>(steps[i / 2]);
    HostileRun run(want, number, i % 2 == 1);
    if (!run.struck()) return {.struck = false};
    const std::string wrong = run.judge();
    if (wrong.empty()) return {};
    return {.wrong = std::string(want.what) + (i % 2 == 1 ? " from call " : " for call ") +
                     std::to_string(number) + ": " + wrong};
  });
  std::cout << want.what << ": " << calls << " calls, " << swept << "\n";
  INFO(summary(swept.failures));
  CHECK(swept.failures.empty());
  CHECK(swept.struck > 0);
}

TEST_CASE(
    "a disk that is full at any write of a run: the job runs under its lock, or dblock says that it did not",
    "[local][sweep][safety]") {
  DBLOCK_NEEDS(why_no_refusals());
  refuse_each(k_no_space, 3);
}

TEST_CASE(
    "a full table of files at any step of a run: the job runs under its lock, or dblock says that it did not",
    "[local][sweep][safety]") {
  DBLOCK_NEEDS(why_no_refusals());
  refuse_each(k_no_files, 9);
}

TEST_CASE(
    "no memory and no process at any step of a run: the job runs under its lock, or dblock says that it did "
    "not",
    "[local][sweep][safety]") {
  DBLOCK_NEEDS(why_no_refusals());
  refuse_each(k_no_memory, 19);
  refuse_each(k_no_processes, 1);
}

TEST_CASE("a sandbox without pidfds and clone3: the job runs under its lock, or dblock says that it did not",
          "[local][sweep][safety]") {
  DBLOCK_NEEDS(why_no_refusals());
  refuse_each(k_sandbox, 1);
}

}  // namespace
}  // namespace dblock::test
