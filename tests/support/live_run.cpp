#include "support/live_run.hpp"

#include <stdexcept>

namespace dblock::test {

LiveRun::LiveRun(const Database& database, const Words& options, const Job& job, const std::string& key,
                 const Words& env)
    : Process(dblock_spawn(database, run_words(key, options, job(directory)), env)) {
  await_file(*this, file("up"));
}

LiveRun::LiveRun(const std::string& url, const Words& options, const Job& job, const std::string& key)
    : Process(dblock_spawn_at(url, run_words(key, options, job(directory)))) {
  await_file(*this, file("up"));
}

void LiveRun::tell(int code) const {
  let_end(directory, code);
}

Exit LiveRun::end(int code, milliseconds limit) {
  tell(code);
  return wait(limit);
}

Spawn kept_script(const std::string& url, const TempDir& directory, const std::string& options,
                  const std::string& rest, const std::string& shell) {
  Spawn spec = script_spawn(url,
                            "set -e\nid=$(dblock acquire --key k --while-pid $$ " + options + ")\n" +
                                print_into("id", "echo \"$id\"") + "\n" + rest,
                            shell);
  spec.cwd = directory.path();
  return spec;
}

std::vector<pid_t> keepers_of(const Process& process) {
  return named("dblock-keeper", process.tree());
}

pid_t keeper_of(const Process& process) {
  std::vector<pid_t> found;
  if (!wait_until([&] { return !(found = keepers_of(process)).empty(); }) || found.size() != 1)
    throw std::runtime_error(std::to_string(found.size()) + " keepers; stderr: " + process.err());
  return found.front();
}

}  // namespace dblock::test
