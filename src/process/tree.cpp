#include "process/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/unique_fd.hpp"

namespace dblock::process {
namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// The next blank-separated number of /proc/PID/stat.
template <typename Number = pid_t>
Number next_number(std::string_view& text) {
  const auto start = text.find_first_not_of(' ');
  if (start == std::string_view::npos) return 0;
  text.remove_prefix(start);
  Number value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return value;
}

constexpr int k_fields_from_session_to_start = 15;

// proc(5): PID (NAME) STATE PPID PGRP SESSION …, the start time is field 22. NAME may hold blanks and
// parentheses, so look for the last ')'.
std::optional<ProcessInfo> read_stat(int proc, const std::string& pid) {
  const UniqueFd file(::openat(proc, (pid + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, 1024> buffer{};
  const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
  if (n <= 0) return std::nullopt;
  std::string_view text(buffer.data(), static_cast<std::size_t>(n));
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close + 3 >= text.size())
    return std::nullopt;
  ProcessInfo info;
  info.name = text.substr(open + 1, close - open - 1);
  info.state = text[close + 2];
  std::string_view head = text.substr(0, open);
  info.pid = next_number(head);
  std::string_view tail = text.substr(close + 3);
  info.parent = next_number(tail);
  info.group = next_number(tail);
  info.session = next_number(tail);
  for (int i = 0; i < k_fields_from_session_to_start; ++i) next_number<std::int64_t>(tail);
  info.start_ticks = next_number<std::uint64_t>(tail);
  return info;
}

std::vector<ProcessInfo> all_processes() {
  std::vector<ProcessInfo> list;
  const std::unique_ptr<DIR, CloseDir> dir(::opendir("/proc"));
  if (!dir) return list;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    if (auto info = read_stat(::dirfd(dir.get()), entry->d_name)) list.push_back(std::move(*info));
  }
  return list;
}

void pause_briefly() {
  const timespec millisecond{0, 1'000'000};
  ::nanosleep(&millisecond, nullptr);
}

}  // namespace

std::optional<ProcessInfo> process_info(pid_t pid) {
  return read_stat(AT_FDCWD, "/proc/" + std::to_string(pid));
}

std::vector<ProcessInfo> descendants(pid_t root) {
  std::vector<ProcessInfo> rest = all_processes();
  std::vector<ProcessInfo> found;
  std::vector<pid_t> parents{root};
  for (std::size_t i = 0; i < parents.size(); ++i) {
    for (ProcessInfo& candidate : rest) {
      if (candidate.pid == 0 || candidate.parent != parents[i]) continue;
      parents.push_back(candidate.pid);
      found.push_back(std::exchange(candidate, {}));  // pid 0: taken
    }
  }
  return found;
}

bool reap_ended(const OnReaped& on_reaped) {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid > 0) {
      on_reaped(pid, status);
    } else if (pid == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == ECHILD;
    }
  }
}

namespace {

// SIGKILL to all descendants who can still die, but one; false when there are none.
bool kill_living(pid_t spared = 0) {
  bool some_alive = false;
  for (const ProcessInfo& process : descendants(::getpid())) {
    if (process.state == 'Z' || process.pid == spared) continue;
    some_alive = true;
    ::kill(process.pid, SIGKILL);
  }
  return some_alive;
}

}  // namespace

bool kill_all(BootTime give_up, const OnReaped& on_reaped) {
  for (;;) {
    kill_living();
    // A killed process takes a moment to die; look at /proc again only after that moment.
    for (int i = 0; i < 5; ++i) {
      if (reap_ended(on_reaped)) return true;
      if (BootClock::now() >= give_up) return false;
      pause_briefly();
    }
  }
}

void kill_all_but(pid_t spared, BootTime give_up) {
  while (kill_living(spared) && BootClock::now() < give_up) pause_briefly();
}

}  // namespace dblock::process
