// The wake-up of an embedded store, made of OFD file locks on a file beside the database. The kernel wakes
// who sleeps behind a process, however the process ends.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "lease/wake_up.hpp"

namespace dblock::store::sqlite {

class Interrupter;

// One empty file, `DATABASE-line`, serves all locks. A request write-locks the byte that a hash of its owner
// id chooses; bytes need not exist to be locked. Who sleeps behind it waits for a read lock on that byte.
// Where two requests have one hash, the second has no byte, and who sleeps behind it wakes with the first
// one's end.
class FileWakeUp final : public lease::WakeUp {
 public:
  // Touches nothing until announce().
  explicit FileWakeUp(const std::string& database_path);
  ~FileWakeUp() override;

  void announce(const lease::OwnerId& own) override;
  [[nodiscard]] lease::Slept sleep_behind(const lease::OwnerId& ahead, std::size_t before, BootTime until,
                                          const WakeEvent& cancel) override;
  void leave() noexcept override;

  // The file offset of the byte of a request.
  [[nodiscard]] static off_t byte_of(const lease::OwnerId& owner);

 private:
  enum class Tried { got, refused, interrupted, broken };

  Tried lock(int command, short type, off_t at) const;
  Tried lock_patiently(off_t at, BootTime until, const WakeEvent& cancel);

  std::string path_;
  UniqueFd file_;
  std::optional<lease::OwnerId> own_;
  std::unique_ptr<Interrupter> interrupter_;
};

}  // namespace dblock::store::sqlite
