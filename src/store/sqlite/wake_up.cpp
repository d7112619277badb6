#include "store/sqlite/wake_up.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <system_error>

#include "base/fnv1a.hpp"
#include "store/sqlite/file.hpp"
#include "store/sqlite/interrupter.hpp"

namespace dblock::store::sqlite {

using lease::Slept;

FileWakeUp::FileWakeUp(const std::string& database_path) : path_(database_path + "-line") {}

FileWakeUp::~FileWakeUp() {
  leave();
}

off_t FileWakeUp::byte_of(const lease::OwnerId& owner) {
  return static_cast<off_t>(fnv1a(owner.text) & (std::uint64_t{std::numeric_limits<off_t>::max()} >> 1U));
}

// A file that cannot be opened yet is tried again by sleep_behind().
void FileWakeUp::announce(const lease::OwnerId& own) {
  if (file_ && own_ == own) return;
  leave();
  own_ = own;
  file_ = open_side_file(path_, WhenMissing::make);
  if (file_) lock(F_OFD_SETLK, F_WRLCK, byte_of(own));
}

Slept FileWakeUp::sleep_behind(const lease::OwnerId& ahead, std::size_t /*before*/, BootTime until,
                               const WakeEvent& cancel) {
  if (own_ && !file_) announce(lease::OwnerId(*own_));
  if (!file_ || (own_ && byte_of(ahead) == byte_of(*own_))) return Slept::not_at_all;
  switch (lock_patiently(byte_of(ahead), until, cancel)) {
    case Tried::got:
      lock(F_OFD_SETLK, F_UNLCK, byte_of(ahead));
      return Slept::to_its_end;
    case Tried::interrupted:
      return cancel.raised() ? Slept::cancelled : Slept::not_yet;
    default:
      return Slept::not_at_all;
  }
}

FileWakeUp::Tried FileWakeUp::lock(int command, short type, off_t at) const {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = at;
  range.l_len = 1;
  if (::fcntl(file_.get(), command, &range) == 0) return Tried::got;
  if (errno == EINTR) return Tried::interrupted;
  return errno == EAGAIN || errno == EACCES ? Tried::refused : Tried::broken;
}

// Waits for a read lock. Tried::interrupted once `until` has come or `cancel` is raised.
FileWakeUp::Tried FileWakeUp::lock_patiently(off_t at, BootTime until, const WakeEvent& cancel) {
  Tried tried = lock(F_OFD_SETLK, F_RDLCK, at);
  if (tried != Tried::refused) return tried;
  try {
    interrupter_ = std::make_unique<Interrupter>(until, cancel);
  } catch (const std::system_error&) {  // the system has no thread left
    return Tried::broken;
  }
  do {
    tried = lock(F_OFD_SETLKW, F_RDLCK, at);
  } while (tried == Tried::interrupted && !cancel.raised() && BootClock::now() < until);
  interrupter_->over();
  return tried;
}

void FileWakeUp::leave() noexcept {
  own_.reset();
  file_.reset();
  interrupter_.reset();
}

}  // namespace dblock::store::sqlite
