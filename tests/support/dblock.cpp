#include "support/dblock.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace dblock::test {

Spawn dblock_bare_spawn(const Words& arguments, const Words& env) {
  Spawn spec;
  spec.argv = {dblock_binary()};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.env = env;
  return spec;
}

Spawn dblock_spawn(const Database& database, const Words& arguments, const Words& env) {
  const bool migrates = !arguments.empty() && arguments.front() == "migrate";
  Spawn spec =
      dblock_bare_spawn(arguments, {"DBLOCK_DB=" + (migrates ? database.owner_url() : database.url())});
  spec.env.insert(spec.env.end(), env.begin(), env.end());
  return spec;
}

Finished dblock(const Database& database, const Words& arguments, const Words& env) {
  return run_program(dblock_spawn(database, arguments, env));
}

Finished dblock_bare(const Words& arguments, const Words& env) {
  return run_program(dblock_bare_spawn(arguments, env));
}

Words run_words(const std::string& key, const Words& options, const Words& command) {
  Words words{"run", "--key", key};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

Words tree_job(const TempDir& directory) {
  return {job_binary(), "tree", directory.file("up")};
}

std::string until_told(const TempDir& directory) {
  return "touch " + directory.file("up") + "; while [ ! -e " + directory.file("go") +
         " ]; do sleep 0.02; done";
}

Words patient_job(const TempDir& directory) {
  return sh(until_told(directory) + "; exit 5");
}

std::string print_signals() {
  return "while read -r line; do case $line in Sig[BI]*) echo \"$line\";; esac; done </proc/$$/status";
}

void await_file(Process& process, const std::string& file) {
  const bool there = wait_until([&] { return std::filesystem::exists(file) || !process.running(); });
  if (there && std::filesystem::exists(file)) return;
  throw std::runtime_error("the job did not create " + file + "; stderr: " + process.err());
}

long long await_renewal(const Database& database, const std::string& key) {
  const long long seen = database.expires_micros(key);
  long long now = 0;
  if (wait_until([&] { return (now = database.expires_micros(key)) > seen; })) return now;
  throw std::runtime_error("the lease of " + key + " is not renewed");
}

namespace {

pid_t guardian_now(const Process& dblock) {
  for (const pid_t pid : children_of(dblock.pid())) {
    if (proc_info(pid).name == "dblock-guardian") return pid;
  }
  return 0;
}

}  // namespace

pid_t guardian_of(const Process& dblock) {
  pid_t found = 0;
  if (!wait_until([&] { return (found = guardian_now(dblock)) != 0; }))
    throw std::runtime_error("no guardian; stderr: " + dblock.err());
  return found;
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
