#include "store/sqlite/boot.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/unique_fd.hpp"

namespace dblock::store::sqlite {
namespace {

// The first 128 bytes of a file of the kernel; empty if it cannot be read.
std::string read_line_file(const char* path) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  const ssize_t n = file ? ::read(file.get(), text.data(), text.size()) : -1;
  return n <= 0 ? "" : std::string(text.data(), static_cast<std::size_t>(n));
}

// True if the kernel itself provides the file: nothing is mounted over it.
bool is_kernels_own(const char* path) {
  struct statx seen {};
  struct statfs system {};
  return ::statx(AT_FDCWD, path, 0, 0, &seen) == 0 && (seen.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0 &&
         ::statfs(path, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

std::int64_t next_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return value;
}

// Reads the line "boottime  SECONDS  NANOSECONDS". Kernels without time namespaces have no such file.
Micros namespace_offset() {
  const std::string offsets = read_line_file("/proc/self/timens_offsets");
  constexpr std::string_view name = "boottime";
  const auto at = offsets.find(name);
  if (at == std::string::npos) return Micros{0};
  std::string_view rest = std::string_view(offsets).substr(at + name.size());
  const std::chrono::seconds seconds{next_number(rest)};
  const std::chrono::nanoseconds nanoseconds{next_number(rest)};
  return std::chrono::duration_cast<Micros>(seconds + nanoseconds);
}

}  // namespace

Micros wall_now() {
  return std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch());
}

TwoClocks clocks_now(const Clock& clock, const Boot& boot) {
  using std::chrono::duration_cast;
  const auto read_boot_clock = [&] {
    return duration_cast<Micros>(clock.now().time_since_epoch()) - boot.namespace_offset;
  };
  // If the process was delayed between the two readings, they do not belong together: read again.
  constexpr Micros together{20};
  constexpr int tries = 5;
  TwoClocks clocks;
  for (int i = 0; i < tries; ++i) {
    clocks.boot = read_boot_clock();
    clocks.wall = wall_now();
    if (read_boot_clock() - clocks.boot <= together) break;
  }
  return clocks;
}

Result<Boot> read_boot() {
  constexpr const char* path = "/proc/sys/kernel/random/boot_id";  // random(4)
  constexpr std::size_t length = 36;
  std::string id = read_line_file(path);
  while (id.ends_with('\n')) id.pop_back();
  if (id.size() != length) {
    return fail(Errc::config,
                "cannot read this boot's id in " + std::string(path) +
                    "; the embedded store needs it to tell this boot's leases from earlier ones");
  }
  if (!is_kernels_own(path)) id += k_containers_own;
  return Boot{std::move(id), namespace_offset()};
}

}  // namespace dblock::store::sqlite
