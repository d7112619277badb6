// CTest's fixture: `test_server start DIR` leaves a keeper behind that owns one server and writes DIR/address
// (socket and port) and DIR/keeper (its process id); `test_server stop DIR` ends it. The keeper also ends
// when the program that started the fixture (CTest) does, however it dies.
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

#include "support/server.hpp"

namespace {

using namespace dblock::test;

int pidfd_of(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

void detach_from_terminal(const std::string& log) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ::dup2(null, 0);
  ::dup2(out, 1);
  ::dup2(out, 2);
}

// Owns the server until told to stop or until `starter` ends.
int keep(const std::string& directory, int starter) {
  sigset_t stop;
  ::sigemptyset(&stop);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&stop, number);
  ::sigprocmask(SIG_BLOCK, &stop, nullptr);
  const int signals = ::signalfd(-1, &stop, SFD_CLOEXEC);
  detach_from_terminal(directory + "/keeper.log");
  try {
    const Server server;
    write_file(directory + "/keeper", std::to_string(::getpid()));
    write_file(directory + "/address.new",
               server.address().socket + " " + std::to_string(server.address().port) + "\n");
    std::filesystem::rename(directory + "/address.new", directory + "/address");
    pollfd entries[] = {{signals, POLLIN, 0}, {starter, POLLIN, 0}};
    while (::poll(entries, starter < 0 ? 1 : 2, -1) < 0) {
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::filesystem::remove(directory + "/address");
  return 0;
}

int start(const std::string& directory) {
  std::filesystem::create_directories(directory);
  std::filesystem::remove(directory + "/address");
  const int starter = pidfd_of(::getppid());
  const pid_t keeper = ::fork();
  if (keeper < 0) return 1;
  if (keeper == 0) std::exit(keep(directory, starter));
  const int fd = pidfd_of(keeper);
  const auto ended = [&] {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  };
  if (wait_until([&] { return std::filesystem::exists(directory + "/address") || ended(); }, 100s) &&
      !ended())
    return 0;
  std::fprintf(stderr, "no server: %s\n", read_file(directory + "/keeper.log").c_str());
  return 1;
}

int stop(const std::string& directory) {
  const std::string text = read_file(directory + "/keeper");
  if (text.empty()) return 0;
  const pid_t keeper = std::stoi(text);
  const int fd = pidfd_of(keeper);
  std::filesystem::remove(directory + "/keeper");
  if (fd < 0) return 0;
  ::kill(keeper, SIGTERM);
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 30'000) == 1 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc == 3 ? argv[1] : "";
  if (verb == "start") return start(argv[2]);
  if (verb == "stop") return stop(argv[2]);
  std::fputs("usage: test_server start|stop DIRECTORY\n", stderr);
  return 64;
}
