// dblock's side of the supervision. start.cpp has what surrounds a job (guardian, parent, the wait before
// it), supervisor.cpp the loop while it runs. One thread, but for set_deadline() and stop_revoked().
#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "process/channel.hpp"
#include "process/signals.hpp"
#include "process/stop_plan.hpp"
#include "process/supervisor.hpp"
#include "process/tree.hpp"

namespace dblock::process {

class ProcessSupervisor final : public Supervisor {
 public:
  ProcessSupervisor(const JobSpec& spec, SharedPage shared)
      : spec_(spec), shared_(std::move(shared)), plan_(spec.kill_grace, spec.slack) {}

  ProcessSupervisor(const ProcessSupervisor&) = delete;
  ProcessSupervisor& operator=(const ProcessSupervisor&) = delete;
  ~ProcessSupervisor() override {
    if (dismissed_) await_guardian();
  }

  Result<void> begin(bool with_parent, AfterDeath after_death);

  void arm_release() override { shared_->arm_release(); }
  Awaited await(const WakeEvent& wake) override;
  [[nodiscard]] StopRequest stop_request() const override { return end_.stop; }
  void set_deadline(BootTime deadline) override { shared_->extend_deadline(deadline); }
  void stop_revoked() override { revoked_event_.raise(); }
  void on_loss(std::function<void()> told) override { on_loss_ = std::move(told); }
  JobEnd run_job(const std::vector<std::string>& environment, std::optional<Nanos> max_runtime) override;
  void finish() override;

 private:
  Result<void> watch_parent();
  [[nodiscard]] bool parent_ended() const;
  bool read_signal(signalfd_siginfo& info) const;
  [[nodiscard]] StopRequest request_at_terminal(const signalfd_siginfo& info) const;
  [[nodiscard]] StopRequest request_of_parent() const;
  void check_guardian();

  void step();
  void arm_timer();
  [[nodiscard]] std::optional<BootTime> emergency_at() const;
  void handle_messages();
  void handle_ready(const Message& message);
  void handle_job_exited(const Message& message);
  void handle_job_stopped(int signal);
  void handle_signals();
  void handle_signal(const signalfd_siginfo& info);
  [[nodiscard]] bool terminal_is_raw() const;
  void handle_times();
  void request_stop(const StopRequest& request, int signal_for_job);
  void note_stop();
  void note_deadline();
  void take_over();
  void tell_loss();
  void await_guardian();

  JobSpec spec_;
  Signals signals_;
  SharedPage shared_;
  StopPlan plan_;
  Channel channel_;
  UniqueFd gate_;
  UniqueFd terminal_;
  UniqueFd parent_;
  pid_t parent_pid_ = 0;
  bool parent_gone_ = false;
  DeadlineTimer timer_;
  WakeEvent revoked_event_;
  std::optional<Tree> tree_;  // from begin() on
  pid_t guardian_ = -1;
  bool guardian_alive_ = false;
  bool dismissed_ = false;

  // While the job runs:
  const std::vector<std::string>* environment_ = nullptr;
  std::optional<Nanos> max_runtime_;
  std::function<void()> on_loss_;
  std::optional<BootTime> runtime_ends_;
  std::optional<BootTime> look_at_terminal_;
  std::optional<BootTime> stopping_since_;
  pid_t job_ = -1;
  bool told_of_stop_ = false;
  bool interrupted_at_terminal_ = false;
  bool over_ = false;
  JobEnd end_;
};

}  // namespace dblock::process
