// The supervisor's rules between two attempts of a job (run --retry).
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <utility>

#include "process/supervisor_rules.hpp"

namespace dblock::process {
namespace {

constexpr Nanos k_start_patience = std::chrono::seconds(10);  // for the guardian of a further attempt

}  // namespace

void SupervisorRules::begin_pause(BootTime begins) {
  before_ = std::exchange(end_, {});
  begins_at_ = begins;
  between_ = true;
  over_ = false;
  look_at_terminal_.reset();
  job_ended_at_.reset();
  say_wait_at_.reset();
}

// A further attempt that was not started leaves the run to end as the attempt before did.
void SupervisorRules::finish() {
  over_ = true;
  if (!before_) return;
  JobEnd& before = *before_;
  if (!end_.started) {
    before.stopped_between = static_cast<bool>(end_.stop);
    before.not_again_errno = before.stopped_between ? 0 : std::max(end_.fork_errno, end_.exec_errno);
    before.stop = end_.stop;
    before.tree_dead = between_ || end_.tree_dead;
    end_ = std::move(before);
  } else {
    std::ranges::copy(before.left_behind, std::back_inserter(end_.left_behind));
  }
  before_.reset();
  between_ = false;
}

// No job runs, so the deadline's coming near ends the run without a stop.
SupervisorRules::Actions SupervisorRules::time_passed_between(const Moment& moment) {
  plan_.set_deadline(moment.deadline);
  if (plan_.fence_due(moment.now)) {
    note_self_fence();
    finish();
    return {{SupervisorAction::Kind::tell_loss}};
  }
  if (begins_until_ && moment.now >= *begins_until_) {
    end_.fork_errno = ETIMEDOUT;
    finish();
  }
  if (!begins_at_ || moment.now < *begins_at_) return {};
  begins_at_.reset();
  begins_until_ = moment.now + k_start_patience;
  return {{SupervisorAction::Kind::start_guardian}};
}

}  // namespace dblock::process
