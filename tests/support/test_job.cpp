// Jobs with one well-defined habit each, for runs under test. The first argument names the habit.
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

namespace {

bool appended(const char* file, int flags, const std::string& line) {
  const int fd = ::open(file, O_WRONLY | O_CLOEXEC | flags, 0666);
  if (fd < 0) return false;
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(99);
  ::close(fd);
  return true;
}

// A file that was not there comes with its line: a test that awaits the file finds the line in it.
void append(const char* file, const std::string& line) {
  if (appended(file, O_APPEND, line)) return;
  const std::string made = std::string(file) + "." + std::to_string(::getpid());
  if (!appended(made.c_str(), O_CREAT | O_EXCL, line)) ::_exit(99);
  const bool first = ::link(made.c_str(), file) == 0;
  ::unlink(made.c_str());
  if (!first && !appended(file, O_APPEND, line)) ::_exit(99);
}

void sleep_ms(long ms) {
  timespec left{ms / 1000, ms % 1000 * 1'000'000};
  while (::nanosleep(&left, &left) != 0) {
  }
}

// interval FILE MS [PID_FILE]: begins, holds for MS, ends; overlap.hpp reads the file.
void note_moment(const char* what, const char* file) {
  const char* const tokens = std::getenv("DBLOCK_TOKEN");  // of several keys the same, one a line
  const std::string token = tokens == nullptr ? "0" : std::string(tokens, std::strcspn(tokens, "\n"));
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  append(file, std::string(what) + " " + std::to_string(now.tv_sec * 1'000'000'000LL + now.tv_nsec) + " " +
                   token + " " + std::to_string(::getpid()) + "\n");
}

// patient UP GO: creates UP, and ends when GO is there, with the code in it. A shell would start a program
// for each look.
int patient(const char* up, const char* go) {
  append(up, "");
  for (;; sleep_ms(5)) {
    std::FILE* const told = std::fopen(go, "re");
    if (told == nullptr) continue;
    int code = 0;
    return std::fscanf(told, "%d", &code) == 1 ? code : 99;
  }
}

// family FILE MS: the same with a child that ignores TERM and lives as long.
int interval(const char* file, long ms, bool with_child) {
  const int alive = ::open(file, O_RDONLY | O_CREAT | O_CLOEXEC, 0666);  // closed by the kernel, at our death
  const bool alone = ::flock(alive, LOCK_EX | LOCK_NB) == 0;
  if (with_child && ::fork() == 0) {
    ::signal(SIGTERM, SIG_IGN);
    sleep_ms(ms);
    ::_exit(0);
  }
  note_moment("begin", file);
  if (!alone) note_moment("beside", file);
  sleep_ms(ms);
  note_moment("end", file);
  return 0;
}

// brood FILE MS: the same, ignoring TERM, with a child and a daemon (double fork, session of its own) that
// ignore it too, hold the kernel's lock on FILE as well and do not end by themselves.
int brood(const char* file, long ms) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::signal(number, SIG_IGN);
  const int alive = ::open(file, O_RDONLY | O_CREAT | O_CLOEXEC, 0666);
  const bool alone = ::flock(alive, LOCK_EX | LOCK_NB) == 0;
  if (::fork() == 0) {
    for (;;) ::pause();
  }
  if (::fork() == 0) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    for (;;) ::pause();
  }
  note_moment("begin", file);
  if (!alone) note_moment("beside", file);
  sleep_ms(ms);
  note_moment("end", file);
  return 0;
}

// tree READY: a child, a child that ignores TERM, INT and HUP, and a grandchild that made its own session and
// ignores them too; creates READY when all are there. None ends by itself.
[[noreturn]] void linger(bool stubborn) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::signal(number, stubborn ? SIG_IGN : SIG_DFL);
  for (;;) ::pause();
}

int tree(const char* ready) {
  int ends[2];
  if (::pipe(ends) != 0) return 99;
  const auto report = [&] {
    ::close(ends[0]);
    if (::write(ends[1], "x", 1) != 1) ::_exit(99);
    ::close(ends[1]);
  };
  if (::fork() == 0) report(), linger(false);
  if (::fork() == 0) ::signal(SIGTERM, SIG_IGN), report(), linger(true);
  if (::fork() == 0) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    ::signal(SIGTERM, SIG_IGN);
    report();
    linger(true);
  }
  ::close(ends[1]);
  char byte = 0;
  for (int seen = 0; seen < 3;) seen += static_cast<int>(::read(ends[0], &byte, 1));
  append(ready, "ready\n");
  linger(false);
}

// signals FILE: appends the name of each signal that comes, and who sent it ("user" or "kernel"); TERM ends
// it with 0 after that, INT and QUIT with 3.
const char* signal_log = nullptr;

void on_signal(int number, siginfo_t* info, void*) {
  char line[64];
  std::snprintf(line, sizeof line, "%s %s\n", ::sigabbrev_np(number),
                info->si_code == SI_KERNEL ? "kernel" : "user");
  const int fd = ::open(signal_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (::write(fd, line, std::strlen(line)) < 0) ::_exit(99);
  ::close(fd);
  if (number == SIGTERM) ::_exit(0);
  if (number == SIGINT || number == SIGQUIT) ::_exit(3);
}

int signals(const char* file) {
  signal_log = file;
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH})
    ::sigaction(number, &action, nullptr);
  append(file, "ready\n");
  for (;;) ::pause();
}

// daemon FILE MS: leaves a child in a session of its own behind that lives for MS, writes its pid to FILE.
// child FILE MS: the same, but in the job's own session.
int leave_behind(const char* file, long ms, bool own_session) {
  int ends[2];
  if (::pipe(ends) != 0) return 99;
  if (::fork() == 0) {
    ::close(ends[0]);
    if (own_session) ::setsid();
    append(file, std::to_string(::getpid()) + "\n");
    ::close(ends[1]);
    sleep_ms(ms);
    ::_exit(0);
  }
  ::close(ends[1]);
  char byte = 0;
  return ::read(ends[0], &byte, 1) == 0 ? 0 : 99;
}

// headless FILE: its first thread ends, and another goes on, deaf to TERM, with the kernel's lock on FILE; it
// ends with its process alone.
[[noreturn]] void lose_head(const char* file) {
  ::signal(SIGTERM, SIG_IGN);
  const int held = ::open(file, O_RDONLY | O_CREAT | O_CLOEXEC, 0666);
  if (::flock(held, LOCK_EX | LOCK_NB) != 0) ::_exit(99);
  std::thread([file, head = ::pthread_self()] {
    ::pthread_join(head, nullptr);
    append(file, "ready\n");
    for (;;) ::pause();
  }).detach();
  ::pthread_exit(nullptr);
}

// hidden FILE: not dumpable, so that /proc may hide it, in a session of its own, deaf to TERM, with the
// kernel's lock on FILE.
[[noreturn]] void hide(const char* file) {
  ::signal(SIGTERM, SIG_IGN);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::setsid();
  const int held = ::open(file, O_RDONLY | O_CREAT | O_CLOEXEC, 0666);
  if (::flock(held, LOCK_EX | LOCK_NB) != 0) ::_exit(99);
  append(file, "ready\n");
  for (;;) ::pause();
}

// crowd FILE COUNT: so many children that only wait. FILE is there once they are.
[[noreturn]] void gather(const char* file, long count) {
  for (long i = 0; i < count; ++i) {
    if (::fork() != 0) continue;
    for (;;) ::pause();
  }
  append(file, "ready\n");
  for (;;) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string habit = argc > 2 ? argv[1] : "";
  const long ms = argc > 3 ? std::atol(argv[3]) : 0;
  if (habit == "interval" && argc > 4) append(argv[4], std::to_string(::getpid()) + "\n");
  if (habit == "interval") return interval(argv[2], ms, false);
  if (habit == "family") return interval(argv[2], ms, true);
  if (habit == "brood") return brood(argv[2], ms);
  if (habit == "patient" && argc > 3) return patient(argv[2], argv[3]);
  if (habit == "tree") return tree(argv[2]);
  if (habit == "signals") return signals(argv[2]);
  if (habit == "headless") lose_head(argv[2]);
  if (habit == "hidden") hide(argv[2]);
  if (habit == "crowd") gather(argv[2], ms);
  if (habit == "daemon") return leave_behind(argv[2], ms, true);
  if (habit == "child") return leave_behind(argv[2], ms, false);
  std::fputs("test_job: unknown habit\n", stderr);
  return 64;
}
