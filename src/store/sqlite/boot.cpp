#include "store/sqlite/boot.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.hpp"

namespace dblock::store::sqlite {

Moment moment_now(Clock& clock) {
  using std::chrono::duration_cast;
  const auto boot = [&clock] { return duration_cast<Micros>(clock.now().time_since_epoch()); };
  // Held up between the two readings, they would not belong together.
  constexpr Micros together{20};
  constexpr int tries = 5;
  Moment moment;
  for (int i = 0; i < tries; ++i) {
    moment.boot = boot();
    moment.wall = duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch());
    if (boot() - moment.boot <= together) break;
  }
  return moment;
}

Result<std::string> read_boot_id() {
  constexpr const char* path = "/proc/sys/kernel/random/boot_id";
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  const ssize_t n = file ? ::read(file.get(), text.data(), text.size()) : -1;
  if (n <= 1) {
    return fail(Errc::config,
                with_errno("cannot read " + std::string(path), errno) +
                    "; the embedded store needs it to tell this boot's leases from earlier ones");
  }
  return std::string(text.data(), static_cast<std::size_t>(n) - 1);
}

}  // namespace dblock::store::sqlite
