#include "process/process_info.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string_view>

#include "base/fnv1a.hpp"

namespace dblock::process {
namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// Removes the next blank-separated number from `text`; nullopt when no number comes next.
template <typename Number = pid_t>
std::optional<Number> next_number(std::string_view& text) {
  const auto start = text.find_first_not_of(" \n");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  Number value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  if (parsed.ec != std::errc{}) return std::nullopt;
  return value;
}

// The whole of a file of /proc, from its beginning.
std::string content_of(const UniqueFd& file) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = ::pread(file.get(), buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
    if (n <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

constexpr int k_fields_from_session_to_threads = 13;

// proc(5): PID (NAME) STATE PPID PGRP SESSION …, field 20 is the number of threads, 22 the start time. NAME
// may hold blanks and parentheses, so look for the last ')'.
std::optional<ProcessInfo> read_stat(const UniqueFd& file) {
  const std::string content = file ? content_of(file) : std::string();
  const std::string_view text = content;
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close + 3 >= text.size())
    return std::nullopt;
  ProcessInfo info;
  info.name = text.substr(open + 1, close - open - 1);
  info.state = text[close + 2];
  std::string_view head = text.substr(0, open);
  info.pid = next_number(head).value_or(0);
  std::string_view tail = text.substr(close + 3);
  info.parent = next_number(tail).value_or(0);
  info.group = next_number(tail).value_or(0);
  info.session = next_number(tail).value_or(0);
  for (int i = 0; i < k_fields_from_session_to_threads; ++i) next_number<std::int64_t>(tail);
  info.threads = next_number<std::uint64_t>(tail).value_or(0);
  next_number<std::int64_t>(tail);
  info.start_ticks = next_number<std::uint64_t>(tail).value_or(0);
  return info;
}

constexpr int k_most_ancestors = 1000;

std::string boot_id() {
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> buffer{};
  const ssize_t n = file ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
  return n > 0 ? std::string(buffer.data(), static_cast<std::size_t>(n)) : std::string();
}

// Boot id and pid namespace: the same for all processes that the caller can see. Empty when not readable.
std::string boot_and_namespace() {
  std::array<char, 64> space{};
  const ssize_t n = ::readlink("/proc/self/ns/pid", space.data(), space.size());
  if (n <= 0) return {};
  return boot_id() + std::string(space.data(), static_cast<std::size_t>(n));
}

std::string digest(const std::string& boot_and_namespace, const ProcessInfo& process) {
  const std::string identity =
      boot_and_namespace + " " + std::to_string(process.pid) + " " + std::to_string(process.start_ticks);
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016" PRIx64, fnv1a(identity));
  return hex.data();
}

}  // namespace

UniqueFd open_proc(const std::string& path) {
  return UniqueFd(::open(("/proc/" + path).c_str(), O_RDONLY | O_CLOEXEC));
}

std::vector<pid_t> numbers_in(const UniqueFd& file) {
  const std::string text = content_of(file);
  std::string_view rest = text;
  std::vector<pid_t> numbers;
  while (const auto number = next_number(rest)) numbers.push_back(*number);
  return numbers;
}

std::vector<pid_t> children_of(pid_t pid) {
  const std::string threads = std::to_string(pid) + "/task";
  std::vector<pid_t> all;
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(("/proc/" + threads).c_str()));
  if (!dir) return all;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (entry->d_name[0] == '.') continue;
    if (const auto file = open_proc(threads + "/" + entry->d_name + "/children"); file)
      std::ranges::copy(numbers_in(file), std::back_inserter(all));
  }
  return all;
}

std::optional<ProcessInfo> process_info(pid_t pid) {
  return read_stat(open_proc(std::to_string(pid) + "/stat"));
}

std::string process_digest(pid_t pid) {
  const std::string where = boot_and_namespace();
  const auto process = process_info(pid);
  return where.empty() || !process ? std::string() : digest(where, *process);
}

std::vector<std::string> ancestor_digests() {
  std::vector<std::string> digests;
  const std::string where = boot_and_namespace();
  pid_t pid = ::getppid();
  for (int i = 0; pid > 0 && !where.empty() && i < k_most_ancestors; ++i) {
    const auto process = process_info(pid);
    if (!process) break;
    digests.push_back(digest(where, *process));
    pid = process->parent;
  }
  return digests;
}

}  // namespace dblock::process
