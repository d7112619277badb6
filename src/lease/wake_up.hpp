// How a waiter learns that the request before it in line has ended. A hint: order and exclusion hold without
// it. So nothing here is an error: where it does not work, the waiter looks at the lock itself.
#pragma once

#include <cstddef>

#include "base/clock.hpp"
#include "lease/lease.hpp"

namespace dblock::lease {

enum class Slept {
  to_its_end,  // the other request has ended, or nobody can tell that it has not
  not_yet,     // `until` has come; the sleep goes on
  cancelled,   // `cancel` was raised
  no_seat,     // there is no room for another sleeper
  not_at_all,  // it does not work
};

// When waiters look at the lock themselves.
struct LookSchedule {
  Micros interval = std::chrono::seconds(1);  // each look comes after half of this to all of it
  // All waiters also look when the lease ends unless it is renewed; else the first in line alone.
  bool at_expiry = true;
};

// Shows others that a request is there, from before its first try until its lease is released, and sleeps
// until another request is there no more. A request is there no more when its process ends, however that
// ends. A waiter that rests without a connection keeps its place and is not there meanwhile: nobody can sleep
// behind it, nor behind a holder that has ended its connection.
//
// THREADING: not thread-safe; one thread at a time, as with LeaseStore.
class WakeUp {
 public:
  WakeUp() = default;
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;
  virtual ~WakeUp() = default;

  // Names the request that is there from now on. Call it before the store connects: what belongs to the
  // connection then costs no statement of its own.
  virtual void announce(const OwnerId& own) = 0;

  // Sleeps until the request `ahead` is there no more, until `until`, or until `cancel` is raised. `before`:
  // how many requests came before this one in line; those at the front find a seat. After Slept::not_yet the
  // sleep goes on: a further call awaits the end of the same request, whatever `ahead` it names.
  [[nodiscard]] virtual Slept sleep_behind(const OwnerId& ahead, std::size_t before, BootTime until,
                                           const WakeEvent& cancel) = 0;

  // A sleep is under way: the store's connection is busy, and looks take another one.
  [[nodiscard]] virtual bool asleep() const { return false; }

  // The request will look often instead of sleeping: limits how long those behind it wait if this process
  // freezes.
  virtual void stay_awake() noexcept {}

  // The store is short of connections: a waiter that looks now and then should close its own in between. May
  // ask the store, but not each time.
  [[nodiscard]] virtual bool crowded() { return false; }

  // How often waiters look at the lock themselves while they sleep.
  [[nodiscard]] virtual LookSchedule look_schedule() const { return {}; }

  // The request is there no more: who sleeps behind it wakes. Does nothing where none is announced.
  virtual void leave() noexcept = 0;
};

}  // namespace dblock::lease
