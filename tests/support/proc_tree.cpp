#include "support/proc_tree.hpp"

#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>

#include "support/config.hpp"

namespace dblock::test {
namespace {

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  while (const dirent* const entry = directory ? ::readdir(directory.get()) : nullptr) {
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    pid_t pid = 0;
    const auto [rest, error] = std::from_chars(entry->d_name, end, pid);
    if (error == std::errc{} && rest == end) found.push_back(pid);
  }
  return found;
}

std::string proc_file(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

ProcInfo parse_stat(const std::string& text) {
  const auto open = text.find('(');
  const auto close = text.rfind(')');  // the name may hold parentheses itself
  if (open == std::string::npos || close == std::string::npos) return {};
  ProcInfo info;
  info.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  rest >> info.state >> info.parent >> info.group >> info.session;
  return info;
}

bool is_still(const std::string& stat_file) {
  const char state = parse_stat(read_file(stat_file)).state;
  return state != 'R' && state != 'S' && state != 'D';
}

bool every_thread_still(pid_t pid) {
  std::error_code failed;
  for (const auto& thread : std::filesystem::directory_iterator(proc_file(pid, "task"), failed)) {
    if (!is_still(thread.path() / "stat")) return false;
  }
  return true;
}

}  // namespace

std::vector<pid_t> processes_with_mark(const std::string& mark) {
  const std::string needle = std::string(k_mark_variable) + "=" + mark + '\0';
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    if (read_file(proc_file(pid, "environ")).find(needle) != std::string::npos && alive(pid))
      found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    const ProcInfo info = proc_info(pid);
    if (info.parent == parent && info.state != 'Z') found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> descendants_of(pid_t ancestor) {
  std::vector<pid_t> found = children_of(ancestor);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto more = children_of(found[i]);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

ProcInfo proc_info(pid_t pid) {
  return parse_stat(read_file(proc_file(pid, "stat")));
}

bool freeze(pid_t pid) {
  return ::kill(pid, SIGSTOP) != 0 ||
         wait_until([&] { return every_thread_still(pid); }, std::chrono::seconds(1));
}

bool alive(pid_t pid) {
  const char state = proc_info(pid).state;
  return state != 0 && state != 'Z' && state != 'X';
}

long long last_alive(const std::vector<pid_t>& processes) {
  return last_seen_before([&] { return std::ranges::none_of(processes, alive); });
}

std::vector<pid_t> named(const std::string& name, std::vector<pid_t> processes) {
  std::erase_if(processes, [&](pid_t pid) { return proc_info(pid).name != name; });
  return processes;
}

std::chrono::nanoseconds kept_waiting_by_machine(pid_t pid) {
  std::istringstream in(read_file(proc_file(pid, "schedstat")));
  long long ran = 0, waited = 0;
  in >> ran >> waited;
  return std::chrono::nanoseconds(waited);
}

std::vector<std::string> open_files(pid_t pid) {
  std::vector<std::string> found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(proc_file(pid, "fd"), failed)) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone) found.push_back(entry.path().filename().string() + " -> " + target.string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string status_field(pid_t pid, const std::string& name) {
  std::istringstream lines(read_file(proc_file(pid, "status")));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + ":")) continue;
    const auto start = line.find_first_not_of(" \t", name.size() + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

}  // namespace dblock::test
