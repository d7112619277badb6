// stdout carries results only; dblock's words go to stderr by rule, and writing them never blocks or kills.
#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/pty.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

void check_prefix(const std::string& err) {
  for (const auto& line : lines(err)) CHECK(line.starts_with("dblock: "));
}

// Both ends of a pipe that nobody reads, filled to the brim.
class FullPipe {
 public:
  FullPipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    read_end_ = ends[0];
    write_end_ = ends[1];
    ::fcntl(write_end_, F_SETFL, O_NONBLOCK);
    const std::string block(4096, 'x');
    while (::write(write_end_, block.data(), block.size()) > 0) {
    }
    while (::write(write_end_, "x", 1) > 0) {
    }
    ::fcntl(write_end_, F_SETFL, 0);
  }
  ~FullPipe() {
    ::close(read_end_);
    ::close(write_end_);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  [[nodiscard]] int write_end() const { return write_end_; }
  [[nodiscard]] bool still_blocking() const { return (::fcntl(write_end_, F_GETFL) & O_NONBLOCK) == 0; }

 private:
  int read_end_ = -1, write_end_ = -1;
};

TEST_CASE("informational lines appear with -v and with CI set and not otherwise") {
  const Database database;
  CHECK(dblock(database, run_words("free", {}, {"true"})).err.empty());
  take(database);
  const auto quiet = dblock(database, run_words("k", {"--wait", "300ms"}, {"true"}));
  CHECK(lines(quiet.err).size() == 1);  // the exit line
  const auto verbose = dblock(database, run_words("k", {"-v", "--wait", "300ms"}, {"true"}));
  CHECK(lines(verbose.err).size() > 1);
  const auto in_ci = dblock(database, run_words("k", {"--wait", "300ms"}, {"true"}), {"CI=true"});
  CHECK(lines(in_ci.err).size() > 1);
  const auto hushed = dblock(database, run_words("k", {"-q", "--wait", "300ms"}, {"true"}), {"CI=true"});
  CHECK(lines(hushed.err).size() == 1);
  for (const auto& finished : {quiet, verbose, in_ci}) {
    check_prefix(finished.err);
    CHECK(ends_with_exit_line(finished.err, 75));
    CHECK(finished.out.empty());
  }
}

TEST_CASE("the exit line is the last line and stays with -q") {
  const Database database;
  take(database);
  for (const char* option : {"-q", "-v"}) {
    const auto held = dblock(database, {option, "run", "--key", "k", "--", "true"});
    check_ended(held, 75);
    check_prefix(held.err);
  }
}

TEST_CASE("stderr lines can be json", "[asan-local]") {
  const Database database;
  take(database);
  const auto held = dblock(database, {"--log-format", "json", "run", "--key", "k", "--", "true"});
  CHECK(held.exit == exited(75));
  for (const auto& line : lines(held.err)) CHECK(nlohmann::json::accept(line));
}

TEST_CASE("the job's stdin and stdout and stderr are its own") {
  const Database database;
  auto spec = dblock_spawn(database, run_words("k", {}, sh("cat; echo complaint >&2")));
  spec.input = "line one\nline two without end";
  const auto finished = run_program(spec);
  CHECK(finished.exit == exited(0));
  CHECK(finished.out == "line one\nline two without end");
  CHECK(finished.err == "complaint\n");
}

TEST_CASE("a closed stderr kills nothing and changes no exit code", "[asan-local]") {
  const Database database;
  auto good = dblock_spawn(database, run_words("k", {"-v"}, sh("echo result")));
  good.close_stderr = true;
  const auto finished = run_program(good);
  CHECK(finished.exit == exited(0));
  CHECK(finished.out == "result\n");

  take(database, "held");
  auto refused = dblock_spawn(database, run_words("held", {"-v"}, {"true"}));
  refused.close_stderr = true;
  CHECK(run_program(refused).exit == exited(75));
}

TEST_CASE("with stderr closed no message lands in a file or connection that took its number") {
  const Database database;
  const TempDir directory;
  auto spec =
      dblock_spawn(database, run_words("k", {"-v", "--status-file", directory.file("status")}, {"true"}));
  spec.close_stderr = true;
  CHECK(run_program(spec).exit == exited(0));
  CHECK(nlohmann::json::accept(read_file(directory.file("status"))));
}

TEST_CASE("a full pipe as stderr delays neither the job nor the release nor a signal", "[asan-local]") {
  Database database;
  const FullPipe pipe;
  auto quick = dblock_spawn(database, run_words("k", {"-v"}, {"true"}));
  quick.stderr_fd = pipe.write_end();
  CHECK(run_program(quick).exit == exited(0));
  CHECK_FALSE(database.has_holder("k"));

  const TempDir directory;
  auto slow = dblock_spawn(database, run_words("k", {"-v"}, sleeping_job(directory)));
  slow.stderr_fd = pipe.write_end();
  Process process(slow);
  await_file(process, directory.file("up"));
  process.signal(SIGTERM);
  CHECK(process.wait() == killed_by(SIGTERM));
  CHECK_FALSE(database.has_holder("k"));
  CHECK(pipe.still_blocking());  // the open file is shared with others: its flags are not ours to change
}

TEST_CASE("a reader of stderr that went away kills nothing", "[asan-local]") {
  Database database;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ::close(ends[0]);
  auto spec = dblock_spawn(database, run_words("k", {"-v"}, {"true"}));
  spec.stderr_fd = ends[1];
  CHECK(run_program(spec).exit == exited(0));
  ::close(ends[1]);
}

TEST_CASE("a job whose reader went away dies of SIGPIPE as without dblock") {
  const Database database;
  const auto finished = run_program(script_spawn(
      database.url(), "dblock run --key k -- yes | head -1; echo ${PIPESTATUS[0]}", "/bin/bash"));
  CHECK(finished.exit == exited(0));
  CHECK(finished.out == "y\n141\n");
}

TEST_CASE("a result whose reader went away ends dblock silently by SIGPIPE, as other tools end",
          "[asan-local]") {
  const Database database;
  REQUIRE(run_true(database) == exited(0));
  const TempDir directory;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ::close(ends[0]);
  for (const Words& words :
       {Words{"--help"}, Words{"help", "run"}, Words{"--version"}, Words{"completion", "bash"},
        Words{"inspect", "--all"}, Words{"inspect", "--json"}, Words{"inspect", "--watch"},
        Words{"inspect", "--watch", "--json"}, Words{"history"}, Words{"doctor"}, Words{"reap"},
        Words{"migrate", "--status"}, Words{"release", "-k", "k", "--force"},
        Words{"pause", "-k", "k", "--for", "1h"}, Words{"resume", "-k", "k"}}) {
    INFO(quoted(words));
    auto spec = dblock_spawn(database, words);
    spec.stdout_fd = ends[1];
    const auto finished = run_program(spec);
    CHECK(finished.exit == killed_by(SIGPIPE));
    CHECK_FALSE(says(finished.err, "exit "));
    spec.ignored_signals = {SIGPIPE};
    check_ended(run_program(spec), 70, {"stdout"});
  }
  ::close(ends[1]);
}

TEST_CASE("a lease whose owner id nobody read is released, and that is said") {
  Database database;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ::close(ends[0]);
  auto spec = dblock_spawn(database, {"acquire", "-k", "k", "--ttl", "1h"});
  spec.stdout_fd = ends[1];
  check_ended(run_program(spec), 70, {"cannot write the result to stdout"});
  ::close(ends[1]);
  CHECK_FALSE(database.has_holder("k"));
}

TEST_CASE("a command substitution around run ends when the job does") {
  const Database database;
  const auto finished =
      run_program(script_spawn(database.url(), "x=$(dblock run --key k -- echo inner 2>&1); echo \"[$x]\""));
  CHECK(finished.out == "[inner]\n");
}

}  // namespace
}  // namespace dblock::test
