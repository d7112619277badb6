// The life of one lease, from the first try to the release, on a thread of its own that owns the connection.
// It knows nothing of processes. Called by one thread, the caller's; what happens is told through
// SessionEvents on the session's own thread, and what came of it is read once done() is raised.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/worker.hpp"
#include "lease/acquire.hpp"
#include "lease/release.hpp"
#include "lease/timing.hpp"

namespace dblock::lease {

// All may be empty.
struct SessionEvents {
  AcquireObserver acquiring{};
  std::function<void()> on_acquire_ended{};  // in the caller's thread too, when it cancels the acquisition
  std::function<void(BootTime deadline)> on_renewed{};  // the lease is proved until then
  std::function<void(const NotOurs& why)> on_lost{};    // the database said so
  // Of any failed statement that will be repeated. `first`: none was since the last one that worked.
  std::function<void(const Error& error, bool first)> on_trouble{};
  std::function<void(int failures)> on_recovered{};  // the lease is renewed again after so many failures
};

class Session {
 public:
  // The clock must outlive the process: so may a thread that had to be abandoned.
  // `events.acquiring.on_trouble` is not used.
  Session(std::unique_ptr<LeaseStore> store, Clock& clock, AcquireRequest request, WaitPolicy policy,
          Timing timing, SessionEvents events);

  // Begins taking the lock; done() is raised when grant() has the answer.
  void start_acquire();
  [[nodiscard]] const WakeEvent& done() const { return worker_.idle(); }
  [[nodiscard]] Result<GrantOutcome> grant() const;
  // From the first pause that a holder made necessary to the answer; zero where none did.
  [[nodiscard]] std::chrono::milliseconds waited() const;
  // How long the database took over the grant: from the start, or after a wait from the last try.
  [[nodiscard]] Nanos grant_took() const;

  // Ends start_acquire() early and takes back what it may have got. True when nothing is left behind or in
  // doubt; false when the thread would not end: the guardian must clean up after this process.
  bool cancel_acquire();

  // Renews `lease` from now on.
  void start_heartbeat(const Lease& lease);
  // Returns when no renewal is under way nor will be.
  // `at_once`: break off a renewal under way instead of giving it a moment. False when the thread would not
  // end.
  bool stop_heartbeat(bool at_once);

  // Set when the database said that the lease is not ours any more.
  [[nodiscard]] std::optional<NotOurs> lost() const;
  // The last failure of a renewal that was not made good since; empty when there is none.
  [[nodiscard]] std::string trouble() const;

  // For the calling thread's use while done() is raised.
  [[nodiscard]] LeaseStore& store();

  // Stops the heartbeat, then gives the lock back (Redisson#7272: a renewal must not outlive the unlock),
  // trying for `patience`, but hardly longer than the lease lasts anyway.
  [[nodiscard]] ReleaseResult release(const LeaseRef& ref, Actor actor, RunEnd end, Micros patience);
  // After ReleaseResult::nested: begins to try again until the nested run, which renews the lease, has given
  // it up or let it expire. done() is raised then; stop_heartbeat() ends it early.
  void start_release_after_nested(const LeaseRef& ref, RunEnd end, Micros patience);
  [[nodiscard]] ReleaseResult release_result() const;

  // False once a call had to be broken off because the database did not answer.
  [[nodiscard]] bool responsive() const { return responsive_; }

  // True when the thread had to be left inside a call.
  [[nodiscard]] bool abandoned() const { return abandoned_; }

 private:
  struct State;
  bool let_end(Nanos patience);

  std::shared_ptr<State> state_;
  Worker worker_;
  bool responsive_ = true;
  bool abandoned_ = false;
};

}  // namespace dblock::lease
