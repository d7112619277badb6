#include "app/status_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "lease/types.hpp"

namespace dblock::app {
namespace {

using Json = nlohmann::ordered_json;

std::unexpected<Error> cannot(const std::string& path, int err) {
  return fail(Errc::config,
              with_errno("cannot write the status file " + escape_untrusted(path), err) +
                  "; name a file in a directory this user may write to",
              static_cast<unsigned>(err));
}

Json time_or_null(const std::optional<WallTime>& time) {
  if (!time) return nullptr;
  return lease::format_time({std::chrono::duration_cast<Micros>(time->time_since_epoch())});
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string to_json(const RunStatus& status) {
  const Json document{{"format", 1},
                      {"outcome", status.outcome},
                      {"exit_code", status.exit_code},
                      {"key", status.key},
                      {"owner", or_null(status.owner)},
                      {"token", or_null(status.token)},
                      {"started_at", time_or_null(status.started_at)},
                      {"acquired_at", time_or_null(status.acquired_at)},
                      {"ended_at", time_or_null(status.ended_at)},
                      {"release", status.release},
                      {"message", status.message}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<StatusFile> StatusFile::prepare(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return cannot(path, EISDIR);
  std::string temporary = path + ".XXXXXX";
  // mkostemp() makes the file anew (O_EXCL) with mode 0600, whatever the umask.
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return cannot(path, errno);
  return StatusFile(path, std::move(temporary), fd);
}

StatusFile::StatusFile(StatusFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)) {}

StatusFile::~StatusFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> StatusFile::commit(const RunStatus& status) {
  const std::string text = to_json(status);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot(path_, errno);
    done += static_cast<std::size_t>(n);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return cannot(path_, errno);
  temporary_.clear();
  return {};
}

}  // namespace dblock::app
