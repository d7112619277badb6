// Runs in the background whose job is up.
#pragma once

#include <functional>
#include <string>

#include "support/dblock.hpp"

namespace dblock::test {

struct OwnDirectory {
  TempDir directory;
};

// A run of "k", unless `key` names another. The constructor returns when its job is up: when that has created
// the file `up` in the directory which it is given, and which is gone with this.
class LiveRun : private OwnDirectory, public Process {
 public:
  using Job = std::function<Words(const TempDir& directory)>;
  explicit LiveRun(const Database& database, const Words& options = {}, const Job& job = patient_job,
                   const std::string& key = "k", const Words& env = {});
  explicit LiveRun(const std::string& url, const Words& options = {}, const Job& job = patient_job,
                   const std::string& key = "k");

  [[nodiscard]] std::string file(const std::string& name) const { return directory.file(name); }
  // Lets a patient_job() end, with this code.
  void tell(int code = 0) const;
  // … and returns how the run ends.
  Exit end(int code = 0, milliseconds limit = patience());
};

// … of a job with children, one of which ignores TERM and one of which left the session.
class TreeRun : public LiveRun {
 public:
  template <typename Where>
  explicit TreeRun(const Where& where, const Words& options = {}, const std::string& key = "k")
      : LiveRun(where, options, tree_job, key) {}

  // No process of the job lives; dblock and guardian may.
  [[nodiscard]] bool job_dead() const { return job_tree_dead(*this, guardian); }
  // When the last look began that found any of them alive, in microseconds since the epoch.
  [[nodiscard]] long long job_last_seen() const {
    return last_seen_before([&] { return job_dead(); });
  }

  const pid_t guardian = guardian_of(*this);
  const pid_t job = job_of(*this);
};

// A shell script that does not end by itself.
inline constexpr const char* k_for_ever = "while :; do sleep 0.2; done";

// A script that takes "k" for itself by `acquire --while-pid`, and then goes on with `rest` in this
// directory, where the file `id` holds the owner id by then.
[[nodiscard]] Spawn kept_script(const std::string& url, const TempDir& directory, const std::string& options,
                                const std::string& rest = k_for_ever, const std::string& shell = "/bin/sh");

// … that has taken it.
class KeptScript : private OwnDirectory, public Process {
 public:
  explicit KeptScript(const std::string& url, const std::string& options,
                      const std::string& rest = k_for_ever, const std::string& shell = "/bin/sh")
      : Process(kept_script(url, directory, options, rest, shell)) {
    await_file(*this, file("id"));
  }
  [[nodiscard]] std::string file(const std::string& name) const { return directory.file(name); }
};

// The keepers among the processes that a program has started.
[[nodiscard]] std::vector<pid_t> keepers_of(const Process& process);
// … of which there is one; waits for it.
[[nodiscard]] pid_t keeper_of(const Process& process);

}  // namespace dblock::test
