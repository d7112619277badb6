#include "app/run/status_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "lease/server_time.hpp"

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

Json json_of_sender(const process::Stop& stop) {
  if (stop.from_terminal) return "terminal";
  if (stop.pid == 0) return nullptr;
  const bool by_signal = stop.reason == process::Stop::Reason::signal;
  return {{"pid", stop.pid}, {"uid", by_signal ? Json(stop.uid) : Json(nullptr)}};
}

Json to_json(const process::Stop& stop) {
  if (!stop) return nullptr;
  return {{"reason", reason_word(stop.reason)},
          {"signal", signal_name(stop.signal)},
          {"who", json_of_sender(stop)},
          {"killed", stop.killed}};
}

// A new file in the directory of `path`. The destructor removes it unless `name` has been cleared.
struct Temporary {
  std::string name;
  UniqueFd fd;

  static Result<Temporary> beside(const std::string& path) {
    std::string name = path + ".XXXXXX";
    // mkostemp() makes the file anew (O_EXCL) with mode 0600, of which the umask may take something away.
    UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd) return cannot(path, errno);
    ::fchmod(fd.get(), 0600);
    return Temporary(std::move(name), std::move(fd));
  }
  Temporary(std::string new_name, UniqueFd new_fd) : name(std::move(new_name)), fd(std::move(new_fd)) {}
  Temporary(Temporary&& other) noexcept : name(std::exchange(other.name, {})), fd(std::move(other.fd)) {}
  Temporary& operator=(Temporary&&) = delete;
  ~Temporary() {
    if (!name.empty()) ::unlink(name.c_str());
  }
};

}  // namespace

std::string status_document(const RunStatus& status, const Ending& ending) {
  const Outcome outcome = outcome_of(ending);
  const Json document{{"format", 1},
                      {"outcome", outcome.word},
                      {"exit_code", outcome.exit.code},
                      {"key", status.key},
                      {"owner", or_null(status.owner)},
                      {"token", or_null(status.token)},
                      {"started_at", time_or_null(status.started_at)},
                      {"acquired_at", time_or_null(status.acquired_at)},
                      {"ended_at", time_or_null(status.ended_at)},
                      {"waited_ms", status.waited.count()},
                      {"attempts", status.attempts},
                      {"overdue", or_null(status.overdue)},
                      {"release", status.release},
                      {"stop", to_json(ending.stop)},
                      {"message", escape_message(ending.message)}};  // may quote a server's own words
  return document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<StatusFile> StatusFile::prepare(const std::string& path) {
  struct stat info {};
  // A link is followed here, only to see its target: /dev/stdout is a link, too, and replacing it would break
  // the machine.
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return cannot(path, EISDIR);
  if (path.starts_with("/dev/") || path.starts_with("/proc/") || (exists && !S_ISREG(info.st_mode))) {
    return fail(Errc::config, "cannot write the status file " + escape_untrusted(path) +
                                  ": it is not a regular file and would be replaced by one; name another");
  }
  // The probe is removed again at once, so that a run that is killed leaves nothing behind.
  DBLOCK_TRY(const Temporary probe, Temporary::beside(path));
  return StatusFile(path);
}

Result<void> StatusFile::commit(const std::string& document) const {
  DBLOCK_TRY(Temporary file, Temporary::beside(path_));
  for (std::size_t done = 0; done < document.size();) {
    const ssize_t n = ::write(file.fd.get(), document.data() + done, document.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot(path_, errno);
    done += static_cast<std::size_t>(n);
  }
  if (::rename(file.name.c_str(), path_.c_str()) != 0) return cannot(path_, errno);
  file.name.clear();
  return {};
}

}  // namespace dblock::app
