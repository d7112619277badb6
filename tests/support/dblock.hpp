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
// … with the store that the URL names, as DBLOCK_DB.
[[nodiscard]] Spawn dblock_spawn_at(const std::string& url, const Words& arguments, const Words& env = {});
Finished dblock_at(const std::string& url, const Words& arguments, const Words& env = {});
// … without any configuration.
[[nodiscard]] Spawn dblock_bare_spawn(const Words& arguments, const Words& env = {});
Finished dblock_bare(const Words& arguments, const Words& env = {});
// A shell script with DBLOCK_DB set, in which `dblock` is a function that calls the program.
[[nodiscard]] Spawn script_spawn(const std::string& url, const std::string& script,
                                 const std::string& shell = "/bin/sh");
// `dblock ARG…` as words, for a terminal or another program.
[[nodiscard]] Words dblock_words(const Words& arguments);

// Nothing listens there.
inline constexpr const char* k_no_server = "mysql://app@127.0.0.1:1/d";

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

// The end of a run of `true`, which tells whether the lock is to be had.
Exit run_true(const Database& database, const std::string& key = "k", const Words& options = {});

// A job with children in its session and out of it, that creates the file `up` once they are there.
[[nodiscard]] Words tree_job(const TempDir& directory);
// Shell that creates the file `up` and then waits for `go`.
[[nodiscard]] std::string until_told(const TempDir& directory);
// A job that does the same, and then ends with the code that `go` holds.
[[nodiscard]] Words patient_job(const TempDir& directory);
// Tells it to end with this code.
void let_end(const TempDir& directory, int code = 0);
// Creates the file `up`, and does not end by itself.
[[nodiscard]] Words sleeping_job(const TempDir& directory);
// Shell that waits for a file.
[[nodiscard]] std::string await_in_shell(const std::string& file);
// Shell that runs `command` and puts what it prints into FILE, which is not there before it is whole.
[[nodiscard]] std::string print_into(const std::string& file, const std::string& command);
// The number in a file that a process has written its pid to; 0 without one.
[[nodiscard]] pid_t pid_in(const std::string& file);
// `spec` started by a shell that says this first: "umask 077", "ulimit -n 9".
[[nodiscard]] Spawn after(const std::string& shell_words, Spawn spec);
// The words in quotes, for a shell. REQUIRES: no word has a quote.
[[nodiscard]] std::string quoted(const Words& words);

// Shell that prints its SigBlk and SigIgn. To be its first command: around each that it forks for, it blocks
// signals and has none blocked after it.
[[nodiscard]] std::string print_signals();

// Waits until a job has created `file`; throws with the program's output when it ends before or does not.
void await_file(Process& process, const std::string& file, milliseconds limit = patience());
// Waits for the next renewal of the key's lease, and returns its expire_time: a heartbeat passes before
// another. Throws when none comes.
long long await_renewal(const Database& database, const std::string& key = "k");
// Waits until the last place in the key's line has been renewed: its waiter looks at the lock in the same
// step. Throws when that does not come.
void await_look_of_waiter(const Database& database, const std::string& key = "k");

// Whether a process says this in time, with its stderr.
[[nodiscard]] bool soon_says(const Process& process, const std::string& part);
// Whether the key has a holder by its row in time, or none.
[[nodiscard]] bool soon_held(const Database& database, const std::string& key = "k");
[[nodiscard]] bool soon_free(const Database& database, const std::string& key = "k");
// Whether so many requests have a place in the key's line in time.
[[nodiscard]] bool soon_in_line(const Database& database, std::size_t count, const std::string& key = "k");
// Whether the key's lease is renewed in time, from now.
[[nodiscard]] bool soon_renewed(const Database& database, const std::string& key = "k");
// Whether nothing is left of a process's or terminal's tree in time.
template <typename Started>
[[nodiscard]] bool soon_gone(const Started& started, milliseconds limit = patience()) {
  return wait_until([&] { return started.tree().empty(); }, limit);
}

// The processes of a running `dblock run`.
[[nodiscard]] pid_t guardian_of(const Process& dblock);  // waits for it
[[nodiscard]] pid_t job_of(const Process& dblock);       // the guardian's child
// Kills both with SIGKILL, so that neither tidies up after the other. Does nothing where the run ends
// meanwhile.
void kill_with_guardian(Process& dblock);
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
