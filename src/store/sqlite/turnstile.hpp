// The turnstile of an embedded store, made of OFD file locks on a file beside the database. The kernel wakes
// the next waiter, and frees a process's position however the process ends.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "lease/turnstile.hpp"

namespace dblock::store::sqlite {

class Interrupter;

// One empty file, `DATABASE-line`, serves all keys. A hash of the key chooses the range of bytes that is the
// key's turnstile; bytes need not exist to be locked. Each position is one write-locked byte, its ticket: 1
// at an empty turnstile, else one more than the highest ticket. Byte 0 of the range is the door: a process
// locks it while it takes a ticket.
//
// Two keys with the same hash share a turnstile (with a thousand keys, in one of five hundred stores). Their
// waiters then delay each other, until a waiter has seen its own lock free twice.
class FileTurnstile final : public lease::Turnstile {
 public:
  // Touches nothing until the first enter().
  explicit FileTurnstile(const std::string& database_path);
  ~FileTurnstile() override;

  [[nodiscard]] lease::Turn enter(const lease::Key& key) override;
  [[nodiscard]] lease::Turn await(BootTime until, const WakeEvent& cancel) override;
  void leave() noexcept override;

  // How many other processes have a position before and behind ours. Holders of a lease count, too.
  struct Others {
    std::size_t before = 0;
    std::size_t behind = 0;
  };
  [[nodiscard]] std::optional<Others> others() const;  // nullopt without a position

  // The file offset of the door of `key`, where its range begins.
  [[nodiscard]] static off_t door_of(const lease::Key& key);

 private:
  enum class Tried { got, refused, interrupted, broken };

  bool open_file();
  bool take_ticket();
  [[nodiscard]] std::optional<off_t> last_ticket(off_t highest) const;
  [[nodiscard]] std::optional<std::size_t> count_tickets(off_t lowest, off_t highest) const;
  [[nodiscard]] std::optional<off_t> some_ticket(off_t lowest, off_t highest) const;
  Tried lock(int command, short type, off_t first, off_t last) const;
  Tried lock_patiently(short type, off_t first, off_t last, BootTime until, const WakeEvent& cancel);

  std::string path_;
  UniqueFd file_;
  off_t door_ = 0;
  off_t ticket_ = 0;
  std::unique_ptr<Interrupter> interrupter_;
};

}  // namespace dblock::store::sqlite
