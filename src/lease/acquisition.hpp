// The steps of acquire().
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "lease/acquire.hpp"
#include "lease/pacing.hpp"
#include "lease/waiting.hpp"
#include "lease/wake_up.hpp"

namespace dblock::lease {

// One call of acquire(). Each step does one thing and names the next step; a lease is returned by `proving`
// alone. Every failure of a step goes through failed(), every refusal through refused(): both count the try,
// pause, and go back to `entering`, or end the acquisition.
class Acquisition {
 public:
  Acquisition(LeaseStore& store, Clock& clock, const LeaseRequest& request, const WaitPolicy& policy,
              const AcquireObserver& observer, const WakeEvent& cancel)
      : store_(store),
        clock_(clock),
        request_(request),
        observer_(observer),
        cancel_(cancel),
        wake_up_(store.wake_up()),
        pacing_(clock, policy, std::hash<std::string>{}(request.owner.text)),
        waiting_(store, clock, request_, pacing_),
        may_nest_(request.outer.has_value()) {}

  Result<AcquireOutcome> run();

 private:
  enum class Step {
    entering,   // connect, nest in an ancestor's lease where there is one
    waiting,    // in the line: look at the lock, and wait until a try may succeed
    trying,     // send the statement that takes the lock
    resolving,  // its reply was lost: read back which owner id the lock has (I5)
    proving,    // the lock is ours: renew once where that was only read, then rely on the lease
  };
  // nullopt: go on with step_.
  using Progress = Result<std::optional<AcquireOutcome>>;

  Result<AcquireOutcome> go_through_steps();
  Progress take_step();

  Progress enter();
  Result<std::optional<Lease>> nest();
  Progress wait_in_line();
  Result<std::optional<OwnerId>> stand();
  Progress wait_for(const LockStatus& row);
  Progress rest(const LockStatus& row);
  [[nodiscard]] bool asleep() const { return wake_up_ != nullptr && wake_up_->asleep(); }

  Progress try_lock();

  // Defined in acquisition_proof.cpp.
  Progress resolve(Error lost_reply);
  Progress read_back();
  Progress rely_on(Lease lease);
  Progress prove();
  Progress not_ours_after_all(const NotOurs& answer);
  Progress ask_again(BootTime lease_end, const Error& why);

  Progress refused(const LockStatus& status);
  AcquireOutcome last_refusal() const;
  void show(const LockStatus& row) const;
  void replace(const LockStatus& holder);
  Progress failed(Error why);
  [[nodiscard]] bool hopeless(const LockStatus& holder) const;
  Progress pause(Micros length);
  [[nodiscard]] std::string wanted() const;

  LeaseStore& store_;
  Clock& clock_;
  LeaseRequest request_;
  const AcquireObserver& observer_;
  const WakeEvent& cancel_;
  WakeUp* const wake_up_;  // null: the store has none
  Pacing pacing_;
  Waiting waiting_;

  Step step_ = Step::entering;
  BootTime sent_at_{};          // when the last try was sent
  Error lost_reply_{};          // for Step::resolving
  std::optional<Lease> lease_;  // for Step::proving
  LockStatus refusal_{};        // the row that was seen last, and refuses the request
  int lost_replies_ = 0;
  bool may_nest_;
  bool refused_before_ = false;
  bool looks_again_ = false;  // after a refusal, without a rest in between
};

}  // namespace dblock::lease
