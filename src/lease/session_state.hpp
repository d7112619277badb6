// What a Session shares with its worker thread, and the tasks of that thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lease/heartbeat.hpp"
#include "lease/session.hpp"

namespace dblock::lease {

// Shared with the worker's tasks, which may outlive the Session when the thread had to be abandoned.
struct Session::State {
  // Not changed after construction; the store is the worker's.
  std::unique_ptr<LeaseStore> store;
  Clock& clock;
  LeaseRequest request;
  WaitPolicy policy;
  Timing timing;
  SessionEvents events;
  WakeEvent stop{};
  HeartbeatInbox inbox{stop};
  std::atomic<bool> heartbeat_over = true;

  mutable std::mutex mutex{};  // guards what follows
  std::optional<Result<AcquireOutcome>> grant{};
  BootTime started{};
  BootTime ended{};
  std::optional<BootTime> wait_began{};
  std::optional<BootTime> reply_lost_at{};  // of the last try whose reply was lost
  std::optional<NotOurs> lost{};
  std::string trouble{};
  BootTime proved_until{};
  ReleaseResult release_result = ReleaseResult::unknown;
  std::optional<std::uint32_t> failures{};

  // Tasks of the worker.
  void acquire();
  void heartbeat(const Lease& lease);
  void count_failures();
  void release(const LeaseRef& ref, Actor actor, RunEnd end, Micros patience);
  void release_after_nested(const LeaseRef& ref, RunEnd end, Micros patience);

  [[nodiscard]] AcquireObserver acquire_observer();
  void note_lost_reply(const Error& error);
  [[nodiscard]] Micros rest_of_hold() const;
  void note_trouble(const Error& error);
  void try_release(const LeaseRef& ref, Actor actor, RunEnd end, Micros patience);
};

}  // namespace dblock::lease
