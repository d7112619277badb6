// The life of one lease, from the first try to the release, on a thread of its own that owns the connection.
// Knows nothing of processes.
//
// THREADING: one caller thread. SessionEvents are called on the session's own thread; the caller reads
//   results once done() is raised.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/worker.hpp"
#include "lease/acquire.hpp"
#include "lease/release.hpp"
#include "lease/timing.hpp"

namespace dblock::lease {

// Callbacks. All may be empty.
struct SessionEvents {
  AcquireObserver acquiring{};
  std::function<void()> on_acquire_ended{};  // cancel_acquire() calls it on the caller's thread too
  std::function<void(BootTime deadline)> on_renewed{};  // the lease is proved until `deadline`
  std::function<void(const NotOurs& why)> on_lost{};    // the database answered that the lease is not ours
  // A statement failed and will be repeated. `first`: the first failure since a statement last worked.
  std::function<void(const Error& error, bool first)> on_trouble{};
  std::function<void(int failures)> on_recovered{};  // the lease is renewed again after so many failures
};

// How Session::release() goes about it.
struct SessionRelease {
  // How long it tries, but not longer than the lease lasts; half a second in any case.
  Micros patience;
  // Reads the row before, for failures(): one more statement.
  bool counts = false;
  // Where the result is unknown, start_release_again() follows: the thread is not given up, though it may
  // still be opening a connection.
  bool goes_on = false;
  // on_silence() is called when the database has not answered for `silence`.
  Nanos silence = Nanos::max();
  std::function<void()> on_silence{};
};

class Session {
 public:
  // The clock must live until the process ends: a thread that had to be abandoned may still use it.
  // `events.acquiring.on_trouble` is not used.
  Session(std::unique_ptr<LeaseStore> store, Clock& clock, LeaseRequest request, WaitPolicy policy,
          Timing timing, SessionEvents events);

  // Begins taking the lock; done() is raised when grant() has the answer.
  void start_acquire();
  [[nodiscard]] const WakeEvent& done() const { return worker_.idle(); }
  [[nodiscard]] Result<AcquireOutcome> grant() const;
  // From the first wait after a refusal to the answer, or to now; zero where there was no wait.
  [[nodiscard]] std::chrono::milliseconds waited() const;
  // How long the database took for the grant: from the start, or, where there was a wait, from the sending of
  // the last try. Zero without a grant.
  [[nodiscard]] Nanos grant_took() const;

  // Ends start_acquire() early and releases what it may have been granted. True when no lease is left behind
  // or in doubt. False when one may be, or the thread did not end: then the guardian must clean up after this
  // process.
  bool cancel_acquire();
  // For an acquisition that has ended without a lease: the reply to a try was lost, and its statement may
  // still reach the database, or wait there.
  [[nodiscard]] bool may_be_granted_later() const;

  // Renews `lease` from now on.
  void start_heartbeat(const Lease& lease);
  // While the heartbeat runs: renews the lease at once, and lets others see `news` beside it.
  void tell_others(const JobNews& news);
  // Ends the heartbeat: after it no renewal is under way or will follow. `at_once`: break off a renewal under
  // way instead of giving it a moment. False when the thread did not end and was abandoned.
  bool stop_heartbeat(bool at_once);

  // Set when the database said that the lease is not ours any more.
  [[nodiscard]] std::optional<NotOurs> lost() const;
  // The last failure that no grant or renewal has followed; empty when there is none.
  [[nodiscard]] std::string trouble() const;

  // For the caller, while done() is raised.
  [[nodiscard]] LeaseStore& store();

  // Stops the heartbeat, then releases the lock: no renewal may come after the release.
  [[nodiscard]] ReleaseResult release(const LeaseRef& ref, Actor actor, RunEnd end,
                                      const SessionRelease& how);
  // How many runs have failed in a row with the one that was released as a failure; nullopt where the row was
  // not read, or shows another lease.
  [[nodiscard]] std::optional<std::uint32_t> failures() const;
  // After ReleaseResult::nested: repeats the release, on the session's thread, until the nested run, which
  // renews the lease, has released its part or let the lease expire. done() is raised then; stop_heartbeat()
  // ends it early.
  void start_release_after_nested(const LeaseRef& ref, RunEnd end, Micros patience);
  // After ReleaseResult::unknown, unless abandoned(): tries to release again, on the session's thread, until
  // the lease ends. done() is raised then; stop_heartbeat() ends it early.
  void start_release_again(const LeaseRef& ref, Actor actor, RunEnd end);
  [[nodiscard]] ReleaseResult release_result() const;

  // How much longer than by its row the granted lock must be held for --min-hold, counted from now.
  [[nodiscard]] Micros rest_of_hold() const;

  // False once a call had to be broken off because the database did not answer.
  [[nodiscard]] bool responsive() const { return responsive_; }

  // True when the thread could not be ended and was left inside a call.
  [[nodiscard]] bool abandoned() const { return abandoned_; }

 private:
  struct State;
  bool break_off(Nanos patience);
  bool let_end(Nanos patience);

  std::shared_ptr<State> state_;
  Worker worker_;
  bool responsive_ = true;
  bool abandoned_ = false;
};

}  // namespace dblock::lease
