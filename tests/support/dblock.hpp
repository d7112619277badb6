// The binary under test, run against a test's database.
#pragma once

#include <string>
#include <vector>

#include "support/database.hpp"
#include "support/proc_tree.hpp"
#include "support/process.hpp"

namespace dblock::test {

using Words = std::vector<std::string>;

// `dblock ARG…` in a bare environment with DBLOCK_DB set: to jobs' account, and to the owner's for migrate.
[[nodiscard]] Spawn dblock_spawn(const Database& database, const Words& arguments, const Words& env = {});
// … to the end.
Finished dblock(const Database& database, const Words& arguments, const Words& env = {});
// … without any configuration.
[[nodiscard]] Spawn dblock_bare_spawn(const Words& arguments, const Words& env = {});
Finished dblock_bare(const Words& arguments, const Words& env = {});

// `run --key KEY [OPTIONS] -- COMMAND…`
[[nodiscard]] Words run_words(const std::string& key, const Words& options, const Words& command);
// `/bin/sh -c SCRIPT` as a command.
[[nodiscard]] inline Words sh(const std::string& script) {
  return {"/bin/sh", "-c", script};
}

[[nodiscard]] inline Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A job with children in its session and out of it, that creates the file `up` once they are there.
[[nodiscard]] Words tree_job(const TempDir& directory);
// Shell that creates the file `up` and then waits for `go`.
[[nodiscard]] std::string until_told(const TempDir& directory);
// … and then ends with code 5.
[[nodiscard]] Words patient_job(const TempDir& directory);

// Shell that prints its SigBlk and SigIgn. To be its first command: around each that it forks for, it blocks
// signals and has none blocked after it.
[[nodiscard]] std::string print_signals();

// Waits until a job has created `file`; throws with the program's output when it ends before or does not.
void await_file(Process& process, const std::string& file);
// Waits for the next renewal of the key's lease, and returns its expire_time: a heartbeat passes before
// another.
long long await_renewal(const Database& database, const std::string& key = "k");

// The processes of a running `dblock run`.
[[nodiscard]] pid_t guardian_of(const Process& dblock);  // waits for it
[[nodiscard]] pid_t job_of(const Process& dblock);       // the guardian's child
// A guardian that the machine keeps from running for longer than this would be too late, and no bug.
[[nodiscard]] milliseconds machine_delay();
// No process of the job lives; dblock and guardian may.
[[nodiscard]] bool job_tree_dead(const Process& dblock, pid_t guardian);

[[nodiscard]] bool says(const std::string& text, const std::string& part);
[[nodiscard]] std::vector<std::string> lines(const std::string& text);
[[nodiscard]] std::string last_line(const std::string& text);
// "dblock: exit N (" starts the last line.
[[nodiscard]] bool ends_with_exit_line(const std::string& err, int code);
[[nodiscard]] std::size_t count_of(const std::string& text, const std::string& part);

}  // namespace dblock::test
