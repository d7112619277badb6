// Steps that many cases take, each checked as it is taken: a failure names the line of the case.
#pragma once

#include <nlohmann/json.hpp>
#include <source_location>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/dblock.hpp"

namespace dblock::test {

using CallSite = std::source_location;
inline std::string at_line(const CallSite& site) {
  return std::string(site.file_name()) + ":" + std::to_string(site.line()) + ": ";
}

// `acquire`, as a script does it: the owner id, which is all that is printed.
inline std::string take(const Database& database, const std::string& key = "k",
                        const Words& terms = {"--ttl", "60s"}, const CallSite& site = CallSite::current()) {
  const auto taken = dblock(database, with({"acquire", "--key", key}, terms));
  INFO(at_line(site) << taken.err);
  REQUIRE(taken.exit == exited(0));
  const std::string owner = last_line(taken.out);
  REQUIRE(taken.out == owner + "\n");
  return owner;
}

// `release` by its owner.
inline void release_lease(const Database& database, const std::string& owner, const std::string& key = "k",
                          const CallSite& site = CallSite::current()) {
  const auto released = dblock(database, {"release", "--key", key, "--owner", owner});
  INFO(at_line(site) << released.err);
  REQUIRE(released.exit == exited(0));
}

// `release --force`, as an operator does it: the holder's lease is revoked.
inline void revoke(const Database& database, const std::string& key = "k",
                   const CallSite& site = CallSite::current()) {
  Finished revoked;
  // A listing that a busy machine reads for longer than dblock believes it (69) is asked for again.
  static_cast<void>(wait_until([&] {
    revoked =
        dblock(database, {"release", "--key", key, "--force", "--token", database.column(key, "token")});
    return revoked.exit != exited(69);
  }));
  INFO(at_line(site) << revoked.err);
  REQUIRE(revoked.exit == exited(0));
}

// A run in the background that has said that it waits for the lock: it has its place in the line.
inline Process waiting_run(const Database& database, const Words& options = {"--wait", "60s"},
                           const Words& command = {"true"}, const std::string& key = "k",
                           const CallSite& site = CallSite::current()) {
  Process run(dblock_spawn(database, run_words(key, with({"-v"}, options), command)));
  const bool waits = soon_says(run, "waiting: ");
  INFO(at_line(site) << run.err());
  REQUIRE(waits);
  return run;
}

// What `inspect` prints as JSON.
inline nlohmann::json inspected(const Database& database, const Words& options = {},
                                const CallSite& site = CallSite::current()) {
  const auto finished = dblock(database, with({"--json", "inspect"}, options));
  INFO(at_line(site) << finished.err);
  REQUIRE(finished.exit == exited(0));
  return nlohmann::json::parse(finished.out);
}

inline std::vector<pid_t> pids_of(const std::vector<Process>& processes) {
  std::vector<pid_t> pids;
  for (const auto& process : processes) pids.push_back(process.pid());
  return pids;
}

// The waiters of "k" in the order in which `inspect` shows them to who asks at this URL.
inline std::vector<pid_t> waiters_shown(const std::string& url) {
  const auto finished = dblock_at(url, {"inspect", "--key", "k", "--json"});
  INFO(finished.err);
  REQUIRE(finished.exit == exited(0));
  const auto document = nlohmann::json::parse(finished.out);
  std::vector<pid_t> pids;
  for (const auto& waiter : document["locks"].at(0)["waiters"]) pids.push_back(waiter["pid"]);
  return pids;
}

// dblock has ended with a code of its own, which its last line names, and has said all of these.
inline void check_ended(const Finished& finished, int code, const Words& said = {},
                        const CallSite& site = CallSite::current()) {
  INFO(at_line(site) << finished.out << finished.err);
  CHECK(finished.exit == exited(code));
  CHECK(ends_with_exit_line(finished.err, code));
  for (const auto& part : said) {
    INFO("not said: " << part);
    CHECK(says(finished.err, part));
  }
}

// … and so in time.
inline void check_ends(Process& process, int code, const Words& said = {}, milliseconds limit = patience(),
                       const CallSite& site = CallSite::current()) {
  const Exit exit = process.wait(limit);
  check_ended({exit, process.out(), process.err()}, code, said, site);
}

// All end with 0 in time.
inline void check_all_succeed(std::vector<Process>& processes, milliseconds limit = patience(),
                              const CallSite& site = CallSite::current()) {
  for (auto& process : processes) {
    const Exit exit = process.wait(limit);
    INFO(at_line(site) << process.err());
    CHECK(exit == exited(0));
  }
}

}  // namespace dblock::test
