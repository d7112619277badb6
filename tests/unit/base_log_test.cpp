// Each case runs this program again as a child that writes log lines, because the log binds itself to the
// process's stderr once.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "support/catch.hpp"

namespace dblock {
namespace {

using namespace std::chrono_literals;

constexpr const char* k_mode = "DBLOCK_TEST_LOG";
constexpr int k_came_through = 42;

struct Pipe {
  UniqueFd read_end, write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void fill(int fd) {
  const std::string block(4096, 'x');
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  while (::write(fd, block.data(), block.size()) > 0) {
  }
  while (::write(fd, "x", 1) > 0) {
  }
  ::fcntl(fd, F_SETFL, 0);
}

// The wait status; fails when it hangs.
int end_of(pid_t child) {
  int status = 0;
  for (int i = 0; i < 2000; ++i) {
    if (::waitpid(child, &status, WNOHANG) == child) return status;
    std::this_thread::sleep_for(10ms);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  FAIL("the child hangs");
  return status;
}

[[noreturn]] void become_log_child(const char* mode) {
  ::setenv(k_mode, mode, 1);
  ::unsetenv("CI");
  ::execl("/proc/self/exe", "unit_tests", "log child", nullptr);
  ::_exit(1);
}

// Runs the child below with `stderr_fd` (-1: closed) and returns its wait status; fails when it hangs.
int log_in_child(const char* mode, int stderr_fd) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, 1);
    if (stderr_fd >= 0) {
      ::dup2(stderr_fd, 2);
    } else {
      ::close(2);
    }
    become_log_child(mode);
  }
  return end_of(child);
}

bool came_through(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == k_came_through;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> block{};
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLIN) == 0) return text;
    const auto n = ::read(fd, block.data(), block.size());
    if (n <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(n));
  }
}

std::string logged(const char* mode) {
  const auto pipe = make_pipe();
  CHECK(came_through(log_in_child(mode, pipe.write_end.get())));
  return read_all(pipe.read_end.get());
}

// What the child writes to a terminal of its own whose foreground is its own.
std::string logged_at_terminal(const char* mode, const char* term, unsigned short columns = 80) {
  int master = -1;
  const winsize size{24, columns, 0, 0};
  const pid_t child = ::forkpty(&master, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setenv("TERM", term, 1);
    ::dup2(::open("/dev/null", O_WRONLY), 1);
    become_log_child(mode);
  }
  const UniqueFd reader(master);
  CHECK(came_through(end_of(child)));
  return read_all(reader.get());
}

// Not a test by itself.
TEST_CASE("log child", "[.]") {
  const char* const mode = std::getenv(k_mode);
  if (mode == nullptr) return;
  const std::string_view how(mode);
  log::configure({.format = how == "json" ? log::Format::json : log::Format::text,
                  .quiet = how == "quiet",
                  .verbose = how == "verbose"});
  if (how == "live") {
    log::show_live("waits\x1b[2J and waits");
    log::warning("in between");
    log::show_live("waits on");
    log::clear_live();
    log::clear_live();
  }
  if (how == "stopped") {
    log::show_live("before");
    ::tcflow(STDERR_FILENO, TCOOFF);
    log::show_live("lost");
    log::info("lost");
    log::clear_live();
    ::tcflow(STDERR_FILENO, TCOON);
  }
  log::debug("a debug line");
  log::info("an info line");
  log::warning("a warning with \x1b[31m and \\x1b");
  if (how == "long") log::error(std::string(100'000, 'y'));
  log::exit_line(75, "held", "held by \"x\"");
  std::_Exit(k_came_through);
}

TEST_CASE("text lines carry the prefix and hostile text escaped once") {
  CHECK(logged("plain") ==
        "dblock: warning: a warning with \\x1b[31m and \\x1b\ndblock: exit 75 (held): held by \"x\"\n");
}

TEST_CASE("quiet leaves the exit line and verbose adds info and debug") {
  CHECK(logged("quiet") == "dblock: exit 75 (held): held by \"x\"\n");
  const auto verbose = logged("verbose");
  CHECK_THAT(verbose, Catch::StartsWith("dblock: a debug line\ndblock: an info line\n"));
}

TEST_CASE("json lines carry time level message and at the end exit and reason") {
  const auto text = logged("json");
  CHECK_THAT(text, Catch::StartsWith(R"({"time":"2)"));
  CHECK_THAT(text, Catch::Contains(R"("level":"warning","message":"a warning with \\x1b[31m and \\x1b"})"));
  CHECK_THAT(text,
             Catch::EndsWith(R"("message":"held by \"x\"","exit":75,"reason":"held"})" + std::string("\n")));
}

TEST_CASE("a line is never longer than a pipe takes at once") {
  const auto text = logged("long");
  const auto start = text.find("dblock: yyy");
  REQUIRE(start != std::string::npos);
  const auto end = text.find('\n', start);
  CHECK(end - start < PIPE_BUF);
  CHECK_THAT(text.substr(0, end), Catch::EndsWith("…"));
}

TEST_CASE("a full pipe loses the line and nothing else") {
  const auto pipe = make_pipe();
  fill(pipe.write_end.get());
  CHECK(came_through(log_in_child("verbose", pipe.write_end.get())));
  CHECK((::fcntl(pipe.write_end.get(), F_GETFL) & O_NONBLOCK) == 0);  // others share this description
}

TEST_CASE("a pipe without a reader kills nothing") {
  auto pipe = make_pipe();
  pipe.read_end.reset();
  CHECK(came_through(log_in_child("verbose", pipe.write_end.get())));
}

TEST_CASE("a closed stderr kills nothing") {
  CHECK(came_through(log_in_child("verbose", -1)));
}

TEST_CASE("a full socket loses the line and one with room gets it") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  UniqueFd near(ends[0]);
  const UniqueFd far(ends[1]);
  CHECK(came_through(log_in_child("plain", far.get())));
  CHECK_THAT(read_all(near.get()), Catch::StartsWith("dblock: warning"));
  fill(far.get());
  CHECK(came_through(log_in_child("plain", far.get())));
  near.reset();
  CHECK(came_through(log_in_child("plain", far.get())));
}

constexpr const char* k_lines_after =
    "dblock: an info line\r\n"
    "dblock: warning: a warning with \\x1b[31m and \\x1b\r\n"
    "dblock: exit 75 (held): held by \"x\"\r\n";

TEST_CASE("a live line is rewritten in place, below the others, and leaves nothing") {
  CHECK(logged_at_terminal("live", "xterm") ==
        std::string("\r\x1b[Kdblock: waits\\x1b[2J and waits\r") +
            "\r\x1b[Kdblock: warning: in between\r\ndblock: waits\\x1b[2J and waits\r" +
            "\r\x1b[Kdblock: waits on\r" + "\r\x1b[K" + k_lines_after);
}

TEST_CASE("a live line leaves the last of the terminal's columns free") {
  CHECK_THAT(logged_at_terminal("live", "xterm", 17),
             Catch::StartsWith("\r\x1b[Kdblock: waits\\x…\r\r\x1b[K"));
}

TEST_CASE("there is no live line on a dumb terminal nor where nobody reads") {
  const std::string plain = std::string("dblock: warning: in between\r\n") + k_lines_after;
  CHECK(logged_at_terminal("live", "dumb") == plain);
  CHECK(logged_at_terminal("live", "") == plain);
  CHECK_THAT(logged("live"), Catch::StartsWith("dblock: warning: in between\ndblock: warning: a"));
}

TEST_CASE("a live line that a stopped terminal kept is cleared by the next line") {
  CHECK(logged_at_terminal("stopped", "xterm") ==
        std::string("\r\x1b[Kdblock: before\r") + "\r\x1b[K" + k_lines_after);
}

}  // namespace
}  // namespace dblock
