// The line in front of each lock of an embedded store: OFD file locks on a file next to the database. The
// kernel wakes the next in line itself, and drops a process's place however that process ends.
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

// One empty file for all keys, `DATABASE-line`. A key's line is a range of its bytes (which need not exist to
// be locked), chosen by a hash. Each place is one write-locked byte, its ticket: 1 for the first of an empty
// line, then always one more than the last. The range's byte 0 is the door: whoever takes a ticket holds it
// for the moment that takes.
//
// Two keys with the same hash share a line (of a thousand keys, one pair in five hundred stores): their
// waiters then hold each other up until they see their own lock free twice.
class FileTurnstile final : public lease::Turnstile {
 public:
  // Touches nothing until the first enter().
  explicit FileTurnstile(const std::string& database_path);
  ~FileTurnstile() override;

  [[nodiscard]] lease::Turn enter(const lease::Key& key) override;
  [[nodiscard]] lease::Turn await(BootTime until, const WakeEvent& cancel) override;
  void leave() noexcept override;

  // How many hold a place in our line before us, and how many after us. Holders of a lease do so too.
  struct Others {
    std::size_t before = 0;
    std::size_t behind = 0;
  };
  [[nodiscard]] std::optional<Others> others() const;  // nothing without a place

  // Where the line of `key` begins in the file.
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
