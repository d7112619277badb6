#include "process/lineage.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/unique_fd.hpp"

namespace dblock::process {
namespace {

constexpr int k_most_ancestors = 1000;

std::string read_start(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> buffer{};
  const ssize_t n = file ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
  return n > 0 ? std::string(buffer.data(), static_cast<std::size_t>(n)) : std::string();
}

// What all processes that the caller can see have in common.
std::string surroundings() {
  std::array<char, 64> space{};
  const ssize_t n = ::readlink("/proc/self/ns/pid", space.data(), space.size());
  if (n <= 0) return {};
  return read_start("/proc/sys/kernel/random/boot_id") +
         std::string(space.data(), static_cast<std::size_t>(n));
}

struct Stat {
  pid_t parent = 0;
  std::string start;  // in clock ticks since boot
};

// proc(5): PID (NAME) STATE PPID …, the start time is field 22. NAME may hold anything, so look for the last
// ')'.
std::optional<Stat> read_stat(pid_t pid) {
  const std::string text = read_start("/proc/" + std::to_string(pid) + "/stat");
  const auto close = text.rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(text).substr(close + 1);
  Stat stat;
  for (int field = 3; field <= 22; ++field) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (field == 4) std::from_chars(word.data(), word.data() + word.size(), stat.parent);
    if (field == 22) stat.start = word;
    rest.remove_prefix(word.size());
  }
  return stat;
}

// FNV-1a (draft-eastlake-fnv): 64 bits are plenty to tell a few processes apart.
std::string digest(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  for (int shift = 60; shift >= 0; shift -= 4) hex += digits[(hash >> static_cast<unsigned>(shift)) & 15U];
  return hex;
}

std::string mark(const std::string& surroundings, pid_t pid, const Stat& stat) {
  return digest(surroundings + " " + std::to_string(pid) + " " + stat.start);
}

}  // namespace

std::string process_mark(pid_t pid) {
  const std::string around = surroundings();
  const auto stat = read_stat(pid);
  return around.empty() || !stat ? std::string() : mark(around, pid, *stat);
}

std::vector<std::string> ancestor_marks() {
  std::vector<std::string> marks;
  const std::string around = surroundings();
  pid_t pid = ::getppid();
  for (int i = 0; pid > 0 && !around.empty() && i < k_most_ancestors; ++i) {
    const auto stat = read_stat(pid);
    if (!stat) break;
    marks.push_back(mark(around, pid, *stat));
    pid = stat->parent;
  }
  return marks;
}

}  // namespace dblock::process
