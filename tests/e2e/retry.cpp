// run --retry: a job that fails is started again, under the same lock.
#include <nlohmann/json.hpp>

#include "support/live_run.hpp"
#include "support/retried.hpp"

namespace dblock::test {
namespace {

using nlohmann::json;

const Words k_quickly{"-v", "--retry", "3", "--retry-delay", "10ms"};

// How a run with --retry ends, and what its job has written to the file $LOG.
struct Retried {
  Finished end;
  Words log;
  json status;
};

Retried retried(const Database& database, const Words& options, const std::string& job,
                const Words& retry = k_quickly) {
  const TempDir directory;
  const Words all = with(with(retry, {"--status-file", directory.file("status")}), options);
  const Words env{"LOG=" + directory.file("log")};
  Retried seen{dblock(database, run_words("k", all, sh(job)), env), {}, {}};
  INFO(seen.end.err);
  seen.log = lines(read_file(directory.file("log")));
  seen.status = json::parse(read_file(directory.file("status")));
  return seen;
}

}  // namespace

TEST_CASE("a job that fails is started again under the same lease until it succeeds",
          "[asan-local][asan-server]") {
  const Database database;
  const auto seen = retried(database, {"--once-per", "1d"},
                            "echo $DBLOCK_ATTEMPT $DBLOCK_TOKEN >>$LOG; test $DBLOCK_ATTEMPT = 3");
  const std::string token = database.column("k", "token");
  CHECK(seen.end.exit == exited(0));
  CHECK(seen.log == Words{"1 " + token, "2 " + token, "3 " + token});
  CHECK(says(seen.end.err, "dblock: attempt 2 of 4 in 10ms: /bin/sh exited with 1\n"));
  CHECK(says(seen.end.err, "dblock: attempt 3 of 4 in 20ms: /bin/sh exited with 1\n"));
  CHECK(seen.status.at("attempts") == 3);
  CHECK(seen.status.at("outcome") == "succeeded");
  CHECK(retried(database, {"--once-per", "1d"}, "echo again >>$LOG").log.empty());
}

TEST_CASE("a run whose job fails in every attempt ends as the last one did") {
  const Database database;
  const auto seen =
      retried(database, {"--keep-on-failure", "1h", "--on-end", "echo $DBLOCK_EXIT_CODE >>$LOG"},
              "echo $DBLOCK_ATTEMPT >>$LOG; exit $((DBLOCK_ATTEMPT + 4))");
  CHECK(seen.end.exit == exited(8));
  CHECK(Words(seen.log.begin(), seen.log.begin() + 4) == Words{"1", "2", "3", "4"});
  CHECK(seen.status.at("attempts") == 4);
  CHECK(seen.status.at("outcome") == "failed");
  CHECK(database.column("k", "last_outcome") == "failed");
  CHECK(run_true(database) == exited(75));
}

TEST_CASE("a job that was killed is started again, and one that succeeds is not") {
  const Database database;
  const auto killed = retried(database, {}, "test $DBLOCK_ATTEMPT = 2 || kill -KILL $$");
  CHECK(killed.end.exit == exited(0));
  CHECK(says(killed.end.err, "dblock: attempt 2 of 4 in 10ms: /bin/sh was killed by SIGKILL\n"));
  CHECK(retried(database, {}, "echo $DBLOCK_ATTEMPT >>$LOG").log == Words{"1"});
  CHECK(retried(database, {}, "echo $DBLOCK_ATTEMPT >>$LOG; exit 1", {"-v"}).log == Words{"1"});
}

TEST_CASE("the lock is held and renewed in the pause, and a signal ends the run there at once",
          "[asan-local][asan-server]") {
  const Database database;
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    PausedRun run(database, {"--heartbeat", "200ms"});
    await_renewal(database);
    CHECK(run_true(database) == exited(75));
    run.signal(number);
    CHECK(run.wait() == killed_by(number));
    CHECK(run.attempts() == Words{"1"});
    CHECK(last_line(run.err()).ends_with("): the job had failed by then, and was not started again"));
    const json status = json::parse(run.status());
    CHECK(status.at("exit_code") == 128 + number);
    CHECK(status.at("attempts") == 1);
    CHECK(status.at("release") == "released");
    CHECK(soon_gone(run));
  }
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("a revocation in the pause ends the run, and starts nothing", "[safety]") {
  const Database database;
  PausedRun run(database, {"--heartbeat", "200ms"});
  revoke(database);
  CHECK(run.wait() == exited(76));
  CHECK(says(last_line(run.err()), "; the job had failed by then, and was not started again"));
  CHECK(json::parse(run.status()).at("stop").at("reason") == "revoked");
  CHECK(run.attempts() == Words{"1"});
}

TEST_CASE("the limit of --max-runtime covers all attempts and the pauses between them") {
  const Database database;
  PausedRun run(database, {"--max-runtime", "1s"});
  CHECK(run.wait() == exited(124));
  CHECK(says(last_line(run.err()), "the attempts of the job took longer than --max-runtime 1s"));
  CHECK(run.attempts() == Words{"1"});
  const auto seen = retried(database, {"--max-runtime", "1s"},
                            "echo $DBLOCK_ATTEMPT >>$LOG; test $DBLOCK_ATTEMPT = 1 || exec sleep 60; exit 1");
  CHECK(seen.end.exit == exited(124));
  CHECK(seen.log == Words{"1", "2"});
}

TEST_CASE("a job that somebody had stopped is not started again") {
  const Database database;
  for (const int number : {SIGTERM, SIGUSR1}) {
    LiveRun run(database, k_in_an_hour);
    run.signal(number);
    CHECK(run.wait() == killed_by(number));
    CHECK_FALSE(says(run.err(), "attempt 2"));
  }
  const auto timed_out = retried(database, {"--max-runtime", "100ms"}, "exec sleep 60");
  CHECK(timed_out.end.exit == exited(124));
  CHECK(timed_out.status.at("attempts") == 1);
}

TEST_CASE("a program that cannot be executed is not tried again, also where it could be the first time") {
  const Database database;
  const TempDir directory;
  const std::string job = directory.file("job");
  write_file(job, "#!/nonexistent/sh\n", 0755);
  const auto never = dblock(database, run_words("k", k_quickly, {job}));
  CHECK(never.exit == exited(126));
  CHECK_FALSE(says(never.err, "attempt 2"));
  write_file(job, "#!/bin/sh\nrm $0; exit 3\n", 0755);
  const auto once = dblock(database, run_words("k", k_quickly, {job}));
  CHECK(once.exit == exited(3));
  CHECK(says(once.err,
             "dblock: warning: attempt 2 of 4 could not be started: No such file or directory; the run ends "
             "as the attempt before it did\n"));
  CHECK(database.column("k", "last_outcome") == "failed");
}

TEST_CASE("what an attempt leaves running is gone before the next one begins", "[safety]") {
  const Database database;
  const std::string first = "if test $DBLOCK_ATTEMPT = 1; then ";
  const auto waited =
      retried(database, {}, first + "(sleep 0.5; echo gone >>$LOG) & exit 1; fi; echo next >>$LOG");
  CHECK(waited.end.exit == exited(0));
  CHECK(waited.log == Words{"gone", "next"});
  const auto killed =
      retried(database, {"--leftovers", "kill"},
              first + "sleep 600 & echo $! >>$LOG; exit 1; fi; kill -0 $(cat $LOG) || echo gone >>$LOG");
  CHECK(killed.end.exit == exited(0));
  CHECK(killed.log.size() == 2);
  CHECK(killed.log.back() == "gone");
}

TEST_CASE("a daemon that an attempt leaves behind is named at the end, and lives") {
  const Database database;
  const auto seen =
      retried(database, {}, "test $DBLOCK_ATTEMPT = 2 || { setsid -f sleep 60; sleep 0.2; exit 1; }");
  CHECK(seen.end.exit == exited(0));
  CHECK(says(seen.end.err,
             "the job left a process of its own session behind, which runs on without the lock: sleep ("));
}

TEST_CASE("every attempt has the caller's session, input and output, and blocks no signal") {
  const Database database;
  const auto seen = retried(database, {},
                            print_signals() +
                                ">>$LOG; ps -o sid= -p $$ >>$LOG; readlink /proc/$$/fd/0 /proc/$$/fd/1 "
                                "/proc/$$/cwd >>$LOG; ls /proc/self/fd | wc -l >>$LOG; exit 1",
                            {"--retry", "1", "--retry-delay", "0"});
  CHECK(seen.end.exit == exited(1));
  const std::size_t half = seen.log.size() / 2;
  REQUIRE(half > 5);
  CHECK(Words(seen.log.begin(), seen.log.begin() + static_cast<long>(half)) ==
        Words(seen.log.begin() + static_cast<long>(half), seen.log.end()));
}

TEST_CASE("a job finds the number of its attempt also without --retry, and in a run inside a run") {
  const Database database;
  const TempDir directory;
  const std::string number = "echo $DBLOCK_ATTEMPT >>" + directory.file("log");
  CHECK(dblock(database, run_words("k", {}, sh(number))).exit == exited(0));
  const Words inner =
      dblock_words(run_words("k", {"--retry", "1", "--retry-delay", "0"}, sh(number + "; exit 1")));
  CHECK(
      dblock(database, run_words("k", k_quickly, sh("test $DBLOCK_ATTEMPT = 2 || exit 1; " + quoted(inner))))
          .exit == exited(1));
  const Words seen = lines(read_file(directory.file("log")));
  CHECK(seen == Words{"1", "1", "2"});
}

TEST_CASE("a job is started again under a slot, as a reader, under several keys and without a wait") {
  const Database database;
  const std::string job = "echo $DBLOCK_ATTEMPT >>$LOG; test $DBLOCK_ATTEMPT = 2";
  for (const Words& options :
       {Words{"--slots", "2"}, Words{"--shared"}, Words{"--key", "l"}, Words{"-n"}, Words{"--with-parent"}}) {
    const auto seen = retried(database, options, job);
    CAPTURE(options);
    CHECK(seen.end.exit == exited(0));
    CHECK(seen.log == Words{"1", "2"});
    CHECK_FALSE(database.has_holder("k"));
  }
}

TEST_CASE("a pipe from a run that has started its job again ends with the run") {
  const Database database;
  const Words run =
      dblock_words(run_words("k", k_quickly, sh("echo $DBLOCK_ATTEMPT; test $DBLOCK_ATTEMPT = 2")));
  const auto seen = run_program(script_spawn(database.url(), quoted(run) + " | cat"));
  CHECK(seen.exit == exited(0));
  CHECK(seen.out == "1\n2\n");
}

TEST_CASE("while a job is started again its holder does not wait for leftovers of the attempt before") {
  const Database database;
  const TempDir directory;
  const std::string first = "sleep 600 & " + print_into(directory.file("left"), "echo $!") + "; exit 1";
  Process run(dblock_spawn(
      database,
      run_words("k", k_quickly, sh("test $DBLOCK_ATTEMPT = 2 || { " + first + "; }; exec sleep 600"))));
  const auto waits = [&] { return !inspected(database).at("locks").at(0).at("job_ended_at").is_null(); };
  CHECK(soon_says(run, "the job has ended; the lock is kept"));
  CHECK(wait_until(waits));
  ::kill(pid_in(directory.file("left")), SIGTERM);
  CHECK(soon_says(run, "attempt 2 of "));
  CHECK(wait_until([&] { return !waits(); }));
  CHECK(run.running());
}

}  // namespace dblock::test
