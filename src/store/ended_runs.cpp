#include "store/ended_runs.hpp"

#include <utility>

#include "base/log.hpp"
#include "store/parameters.hpp"

namespace dblock::store {
namespace {

Parameters run_parameters(const EndedRun& run) {
  return Parameters{{"key", Scalar(run.key)},
                    {"token", Scalar(run.token.value)},
                    {"owner", Scalar(run.owner)},
                    {"was_released", flag(run.was_released)}} +
         holder_parameters(run.kind, run.holder) + sharing_parameters({run.mode, 1}) +
         end_parameters(run.end);
}

}  // namespace

void EndedRuns::expect(const lease::AcquireRequest& request) {
  expected_.owner = request.owner.text;
  expected_.kind = request.kind;
  expected_.mode = request.sharing.mode;
  expected_.holder = request.holder;
}

void EndedRuns::add(const lease::LeaseRef& ref, lease::RunEnd end, const Effect& done) {
  if (done.changed == 0 || !done.told) return;
  EndedRun run = expected_.owner == ref.owner.text ? expected_ : EndedRun{};
  run.key = ref.key.bytes();
  run.token = {*done.told};
  run.owner = ref.owner.text;
  run.end = end;
  runs_.push_back(std::move(run));
}

void EndedRuns::add_forced(const lease::Key& key, const Effect& done) {
  add({key, {}, std::nullopt}, {lease::Outcome::abandoned, std::nullopt}, done);
}

void EndedRuns::add_abandoned(const lease::LockStatus& lease, const Effect& done) {
  if (done.changed == 0 || !done.told) return;
  runs_.push_back({lease.key,
                   lease.token,
                   lease.owner,
                   false,
                   {lease::Outcome::abandoned, std::nullopt},
                   lease.kind,
                   lease.sharing.mode,
                   lease.holder});
}

// The lock is free already: a failure here costs records of the history and nothing else.
void EndedRuns::record(Database& database) {
  const std::string attempt = "cannot record the run in the history";
  for (const auto& run : std::exchange(runs_, {})) {
    auto done = database.ensure_open(attempt);
    if (done) {
      auto recorded = database.run(Verb::record_run, run_parameters(run), attempt);
      if (!recorded) done = std::unexpected(std::move(recorded.error()));
    }
    if (done) continue;
    log::info(done.error().message);
    return;
  }
}

}  // namespace dblock::store
