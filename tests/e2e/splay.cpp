// run --splay: what a run does, and does not do, before its first try.
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// Of this host and key three hours of a day, whatever the machine's own name.
const Words k_on_host{"DBLOCK_HOLDER=job@web1"};

Process splayed(const Database& database, const Words& options = {}) {
  Process process(
      dblock_spawn(database, run_words("k", with({"-v", "--splay", "1d"}, options), {"true"}), k_on_host));
  CHECK(soon_says(process, " before the first try for lock \"k\" (--splay)"));
  return process;
}

}  // namespace

TEST_CASE("a signal ends the splay at once, and nothing is run") {
  const Database database;
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    const TempDir directory;
    Process process = splayed(database, {"--status-file", directory.file("status")});
    process.signal(number);
    CHECK(process.wait() == killed_by(number));
    CHECK(says(last_line(process.err()), "while waiting for lock \"k\"; nothing was run"));
    CHECK(nlohmann::json::parse(read_file(directory.file("status"))).at("outcome") == "interrupted");
    CHECK(soon_gone(process));
  }
  CHECK_FALSE(database.has_row("k"));
}

TEST_CASE("a run has no session while its splay lasts", "[server]") {
  ServerDatabase database;
  Process process = splayed(database);
  CHECK(database.sessions().empty());
  CHECK(guardian_of(process) > 0);  // all that comes before a session is there
  CHECK(database.sessions().empty());
  process.signal(SIGTERM);
  CHECK(process.wait() == killed_by(SIGTERM));
}

TEST_CASE("the end of the parent and the guardian's death end the splay as they end a wait") {
  const Database database;
  Process guarded = splayed(database);
  ::kill(guardian_of(guarded), SIGKILL);
  CHECK(guarded.wait() == exited(70));
  CHECK(says(last_line(guarded.err()), "the guardian process died before the job could start"));
  const TempDir directory;
  Spawn with_parent =
      dblock_spawn(database, run_words("k", {"-v", "--splay", "1d", "--with-parent"}, {"true"}), k_on_host);
  with_parent.argv =
      with({"/bin/sh", "-c", "\"$@\" & " + await_in_shell(directory.file("go")), "sh"}, with_parent.argv);
  Process parent(with_parent);
  CHECK(soon_says(parent, " before the first try for lock \"k\" (--splay)"));
  write_file(directory.file("go"), "");
  CHECK(parent.wait() == exited(0));
  CHECK(soon_gone(parent));
  CHECK(says(parent.err(), "has ended, while waiting for lock \"k\"; nothing was run"));
}

TEST_CASE("a command that is not there and a bad configuration are found before the splay") {
  const Database database;
  const Words hour{"--splay", "1d"};
  CHECK(dblock(database, run_words("k", hour, {"/nonexistent/job"}), k_on_host).exit == exited(127));
  CHECK(dblock(database, run_words("k", hour, {"/etc"}), k_on_host).exit == exited(126));
  CHECK(dblock_at("mysql:nonsense", run_words("k", hour, {"true"}), k_on_host).exit == exited(78));
  CHECK(dblock(database, run_words("k", with(hour, {"--status-file", "/nonexistent/status"}), {"true"}),
               k_on_host)
            .exit == exited(78));
}

TEST_CASE("neither --wait nor --max-runtime counts the splay, and the wait for the lock does not either") {
  const Database database;
  const TempDir directory;
  // Of this host and key 1.5 of 10 s.
  const auto begun = std::chrono::steady_clock::now();
  const auto finished = dblock(database,
                               run_words("k",
                                         {"-v", "--splay", "10s", "--wait", "500ms", "--max-runtime", "1s",
                                          "--status-file", directory.file("status")},
                                         {"true"}),
                               k_on_host);
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(std::chrono::steady_clock::now() - begun > 1s);
  CHECK(nlohmann::json::parse(read_file(directory.file("status"))).at("waited_ms") == 0);
}

}  // namespace dblock::test
