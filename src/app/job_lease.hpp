// The lease of one `run`, from the first try to the release, on a thread of its own that owns the connection.
// Called from the main thread; what happens on the other thread comes back through WakeEvents and the Fence.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/worker.hpp"
#include "lease/acquire.hpp"
#include "lease/release.hpp"
#include "lease/timing.hpp"
#include "process/supervisor.hpp"

namespace dblock::app {

using lease::ReleaseResult;

class JobLease {
 public:
  // `fence` may be null where nothing runs under the lease (`acquire`).
  JobLease(std::unique_ptr<lease::LeaseStore> store, lease::AcquireRequest request, lease::WaitPolicy policy,
           lease::Timing timing, std::shared_ptr<process::Fence> fence);

  // Told at each pause that a holder makes necessary, on the lease's own thread. Call before start_acquire().
  void on_wait(std::function<void(const lease::LockStatus&)> told);

  // Begins taking the lock; done() is raised when grant() has the answer.
  void start_acquire();
  [[nodiscard]] const WakeEvent& done() const { return worker_.idle(); }
  [[nodiscard]] Result<lease::GrantOutcome> grant() const;
  // From the first pause that a holder made necessary to the answer; zero where none did.
  [[nodiscard]] std::chrono::milliseconds waited() const;
  // How long the database took over the grant: from the start, or after a wait from the last try.
  [[nodiscard]] Nanos grant_took() const;

  // Ends start_acquire() early and takes back what it may have got. True when nothing is left behind or in
  // doubt; false when the thread would not end: the guardian must clean up after this process.
  bool cancel_acquire();

  // Renews `lease` from now on: moves the fence's deadline, and has it stop what runs when the lease is lost
  // for certain.
  void start_heartbeat(const lease::Lease& lease);
  // Returns when no renewal is under way nor will be.
  // `at_once`: break off a renewal under way instead of giving it a moment. False when the thread would not
  // end.
  bool stop_heartbeat(bool at_once);

  // Set when the database said that the lease is not ours any more.
  [[nodiscard]] std::optional<lease::NotOurs> lost() const;
  // The last failure of a renewal that was not made good since; empty when there is none.
  [[nodiscard]] std::string trouble() const;

  // For the calling thread's use while done() is raised.
  [[nodiscard]] lease::LeaseStore& store();

  // Stops the heartbeat, then gives the lock back (Redisson#7272: a renewal must not outlive the unlock),
  // trying for `patience`, but hardly longer than the lease lasts anyway.
  [[nodiscard]] ReleaseResult release(const lease::LeaseRef& ref, lease::Actor actor, lease::RunEnd end,
                                      Micros patience);
  // After ReleaseResult::nested: begins to try again until the nested run, which renews the lease, has given
  // it up or let it expire. done() is raised then; stop_heartbeat() ends it early.
  void start_release_after_nested(const lease::LeaseRef& ref, lease::RunEnd end, Micros patience);
  [[nodiscard]] ReleaseResult release_result() const;

  // False once a call had to be broken off because the database did not answer.
  [[nodiscard]] bool responsive() const { return responsive_; }

  // True when the thread had to be left inside a call.
  [[nodiscard]] bool abandoned() const { return abandoned_; }

 private:
  struct Session;
  bool settle(Nanos patience);

  std::shared_ptr<Session> session_;
  Worker worker_;
  bool responsive_ = true;
  bool abandoned_ = false;
};

}  // namespace dblock::app
