#include "support/dblock.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace dblock::test {

Spawn dblock_bare_spawn(const Words& arguments, const Words& env) {
  Spawn spec;
  spec.argv = dblock_words(arguments);
  spec.env = env;
  return spec;
}

Spawn dblock_spawn_at(const std::string& url, const Words& arguments, const Words& env) {
  return dblock_bare_spawn(arguments, with({"DBLOCK_DB=" + url}, env));
}

Spawn dblock_spawn(const Database& database, const Words& arguments, const Words& env) {
  const bool migrates = !arguments.empty() && arguments.front() == "migrate";
  return dblock_spawn_at(migrates ? database.owner_url() : database.url(), arguments, env);
}

Spawn script_spawn(const std::string& url, const std::string& script, const std::string& shell) {
  Spawn spec;
  spec.argv = {shell, "-c", "dblock() { " + dblock_binary() + " \"$@\"; }\n" + script};
  spec.env = {"DBLOCK_DB=" + url};
  return spec;
}

Words dblock_words(const Words& arguments) {
  return with({dblock_binary()}, arguments);
}

Finished dblock(const Database& database, const Words& arguments, const Words& env) {
  return run_program(dblock_spawn(database, arguments, env));
}

Finished dblock_at(const std::string& url, const Words& arguments, const Words& env) {
  return run_program(dblock_spawn_at(url, arguments, env));
}

Finished dblock_bare(const Words& arguments, const Words& env) {
  return run_program(dblock_bare_spawn(arguments, env));
}

Words run_words(const std::string& key, const Words& options, const Words& command) {
  return with(with({"run", "--key", key}, options), with({"--"}, command));
}

Exit run_true(const Database& database, const std::string& key, const Words& options) {
  return dblock(database, run_words(key, options, {"true"})).exit;
}

Words tree_job(const TempDir& directory) {
  return {job_binary(), "tree", directory.file("up")};
}

std::string await_in_shell(const std::string& file) {
  return "while [ ! -e " + file + " ]; do sleep 0.02; done";
}

std::string until_told(const TempDir& directory) {
  return "touch " + directory.file("up") + "; " + await_in_shell(directory.file("go"));
}

Words patient_job(const TempDir& directory) {
  return {job_binary(), "patient", directory.file("up"), directory.file("go")};
}

// In one step: a job that finds the file finds the code in it.
void let_end(const TempDir& directory, int code) {
  write_file(directory.file("go.new"), std::to_string(code));
  std::filesystem::rename(directory.file("go.new"), directory.file("go"));
}

Words sleeping_job(const TempDir& directory) {
  return sh("touch " + directory.file("up") + "; sleep 600");
}

std::string print_into(const std::string& file, const std::string& command) {
  return command + " >" + file + ".$$ && mv " + file + ".$$ " + file;
}

pid_t pid_in(const std::string& file) {
  return std::atoi(read_file(file).c_str());
}

Spawn after(const std::string& shell_words, Spawn spec) {
  spec.argv = with({"/bin/bash", "-c", shell_words + "; exec \"$0\" \"$@\""}, spec.argv);
  return spec;
}

std::string quoted(const Words& words) {
  std::string all;
  for (const auto& word : words) all += " '" + word + "'";
  return all;
}

std::string print_signals() {
  return "while read -r line; do case $line in Sig[BI]*) echo \"$line\";; esac; done </proc/$$/status";
}

void await_file(Process& process, const std::string& file, milliseconds limit) {
  const bool there = wait_until([&] { return std::filesystem::exists(file) || !process.running(); }, limit);
  if (there && std::filesystem::exists(file)) return;
  throw std::runtime_error("the job did not create " + file + "; stderr: " + process.err());
}

bool soon_says(const Process& process, const std::string& part) {
  return wait_until([&] { return says(process.err(), part); });
}

bool soon_held(const Database& database, const std::string& key) {
  return wait_until([&] { return database.has_holder(key); });
}

bool soon_free(const Database& database, const std::string& key) {
  return wait_until([&] { return !database.has_holder(key); });
}

bool soon_in_line(const Database& database, std::size_t count, const std::string& key) {
  return wait_until([&] { return database.line(key).size() == count; });
}

void await_look_of_waiter(const Database& database, const std::string& key) {
  const std::string seen = database.line_ends(key);
  const auto renewed = [&] {
    const std::string now = database.line_ends(key);
    return !now.empty() && now != seen;
  };
  if (!wait_until(renewed)) throw std::runtime_error("no place in the line of " + key + " is renewed");
}

namespace {

// The end of the lease after its next renewal; 0 when none comes in time.
long long next_end(const Database& database, const std::string& key) {
  const long long seen = database.expires_micros(key);
  long long now = 0;
  return wait_until([&] { return (now = database.expires_micros(key)) > seen; }) ? now : 0;
}

}  // namespace

bool soon_renewed(const Database& database, const std::string& key) {
  return next_end(database, key) != 0;
}

long long await_renewal(const Database& database, const std::string& key) {
  if (const long long end = next_end(database, key); end != 0) return end;
  throw std::runtime_error("the lease of " + key + " is not renewed");
}

namespace {

std::vector<pid_t> guardians_of(const Process& dblock) {
  return named("dblock-guardian", children_of(dblock.pid()));
}

}  // namespace

pid_t guardian_of(const Process& dblock) {
  std::vector<pid_t> found;
  if (!wait_until([&] { return !(found = guardians_of(dblock)).empty(); }))
    throw std::runtime_error("no guardian; stderr: " + dblock.err());
  return found.front();
}

void kill_with_guardian(Process& dblock) {
  std::vector<pid_t> guardians;
  const bool found = wait_until([&] {
    guardians = guardians_of(dblock);
    return !guardians.empty() || !dblock.running();
  });
  if (!found) throw std::runtime_error("no guardian; stderr: " + dblock.err());
  if (guardians.empty()) return;
  dblock.signal(SIGSTOP);
  for (const pid_t guardian : guardians) ::kill(guardian, SIGKILL);
  dblock.signal(SIGKILL);
  (void)dblock.wait();
}

pid_t job_of(const Process& dblock) {
  const pid_t guardian = guardian_of(dblock);
  std::vector<pid_t> children;
  const bool found = wait_until([&] {
    children = children_of(guardian);
    return !children.empty();
  });
  if (!found) throw std::runtime_error("no job; stderr: " + dblock.err());
  return children.front();
}

milliseconds machine_delay() {
  return 1s * slowness();
}

bool job_tree_dead(const Process& dblock, pid_t guardian) {
  return std::ranges::all_of(dblock.tree(),
                             [&](pid_t pid) { return pid == dblock.pid() || pid == guardian; });
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) found.push_back(line);
  return found;
}

std::string last_line(const std::string& text) {
  const auto all = lines(text);
  return all.empty() ? "" : all.back();
}

bool ends_with_exit_line(const std::string& err, int code) {
  return last_line(err).starts_with("dblock: exit " + std::to_string(code) + " (");
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace dblock::test
