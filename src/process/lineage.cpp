#include "process/lineage.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>

#include "base/fnv1a.hpp"
#include "base/unique_fd.hpp"
#include "process/tree.hpp"

namespace dblock::process {
namespace {

constexpr int k_most_ancestors = 1000;

std::string boot_id() {
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> buffer{};
  const ssize_t n = file ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
  return n > 0 ? std::string(buffer.data(), static_cast<std::size_t>(n)) : std::string();
}

// What all processes that the caller can see have in common.
std::string surroundings() {
  std::array<char, 64> space{};
  const ssize_t n = ::readlink("/proc/self/ns/pid", space.data(), space.size());
  if (n <= 0) return {};
  return boot_id() + std::string(space.data(), static_cast<std::size_t>(n));
}

std::string mark(const std::string& surroundings, const ProcessInfo& process) {
  const std::string identity =
      surroundings + " " + std::to_string(process.pid) + " " + std::to_string(process.start_ticks);
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016" PRIx64, fnv1a(identity));
  return hex.data();
}

}  // namespace

std::string process_mark(pid_t pid) {
  const std::string around = surroundings();
  const auto process = process_info(pid);
  return around.empty() || !process ? std::string() : mark(around, *process);
}

std::vector<std::string> ancestor_marks() {
  std::vector<std::string> marks;
  const std::string around = surroundings();
  pid_t pid = ::getppid();
  for (int i = 0; pid > 0 && !around.empty() && i < k_most_ancestors; ++i) {
    const auto process = process_info(pid);
    if (!process) break;
    marks.push_back(mark(around, *process));
    pid = process->parent;
  }
  return marks;
}

}  // namespace dblock::process
