#include "app/identity.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <vector>

#include "base/unique_fd.hpp"
#include "lease/owner_id.hpp"
#include "process/process_info.hpp"

namespace dblock::app {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// Reads /etc/passwd without the name service, whose configuration and sockets would cost more than the file.
std::optional<std::string> local_account(uid_t id) {
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen("/etc/passwd", "re"));
  std::array<char, 1024> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  while (file && ::fgetpwent_r(file.get(), &entry, buffer.data(), buffer.size(), &found) == 0) {
    if (entry.pw_uid == id) return entry.pw_name;
  }
  return std::nullopt;
}

// Asks the environment first, since looking an account up may ask a directory server. The name is for display
// only.
std::string user_name() {
  for (const char* variable : {"LOGNAME", "USER"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return value;
  }
  if (auto local = local_account(::geteuid())) return *std::move(local);
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(4096);
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return std::to_string(::geteuid());
}

}  // namespace

lease::Holder make_holder(const Identity& identity, std::uint32_t pid, std::string command) {
  lease::Holder holder;
  holder.host = identity.display_name ? *identity.display_name : host_name();
  holder.user = identity.display_name ? "" : user_name();
  holder.pid = pid;
  holder.command = std::move(command);
  holder.note = identity.note;
  return holder;
}

std::string account_on_host(const Identity& identity) {
  const auto holder = make_holder(identity, 0, "");
  return holder.user.empty() ? holder.host : holder.user + "@" + holder.host;
}

lease::OwnerId new_owner_id(const lease::Holder& holder) {
  return lease::make_owner_id(holder.host, holder.pid, std::time(nullptr),
                              process::process_digest(static_cast<pid_t>(holder.pid)));
}

bool blocked_by_ancestor(const lease::LockStatus& status) {
  // A script that acquired the lock may have started this process in the background, and may still release
  // it.
  if (status.kind != lease::Kind::run) return false;
  // Another slot may become free.
  if (status.sharing.mode == lease::Mode::slot) return false;
  static const std::vector<std::string> ancestors = process::ancestor_digests();
  const auto is_ancestor = [](const std::string& owner) {
    const std::string digest = lease::digest_of(owner);
    return !digest.empty() && std::ranges::find(ancestors, digest) != ancestors.end();
  };
  return is_ancestor(status.owner) || std::ranges::any_of(status.other_owners, is_ancestor);
}

bool held_by_own_script(const lease::LockStatus& status) {
  const char* const own = std::getenv("DBLOCK_OWNER");
  if (status.sharing.mode == lease::Mode::slot) return false;  // another slot may become free
  if (status.kind != lease::Kind::acquire || own == nullptr || *own == '\0') return false;
  return status.owner == own || std::ranges::find(status.other_owners, own) != status.other_owners.end();
}

std::string account_name(uid_t id) {
  return local_account(id).value_or(std::to_string(id));
}

std::string program_of(std::uint32_t pid) {
  const UniqueFd file(::open(("/proc/" + std::to_string(pid) + "/comm").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return "";
  std::array<char, 64> text{};
  const ssize_t n = ::read(file.get(), text.data(), text.size());
  if (n <= 1) return "";
  return std::string(text.data(), static_cast<std::size_t>(n) - 1);
}

}  // namespace dblock::app
