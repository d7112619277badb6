#include "store/sqlite/turnstile.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/fnv1a.hpp"
#include "store/sqlite/file.hpp"
#include "store/sqlite/interrupter.hpp"

namespace dblock::store::sqlite {
namespace {

using namespace std::chrono_literals;
using lease::Turn;

// 28 bits of hash and 35 bits of ticket use all 63 bits of a file offset. Tickets run out only if a turnstile
// stays busy for 34 000 million positions on end.
constexpr int k_ticket_bits = 35;
constexpr int k_hash_bits = 28;
constexpr off_t k_last_ticket = (off_t{1} << k_ticket_bits) - 1;

// A process locks the door for microseconds, or longer if a busy machine takes its processor away. After this
// time that process counts as frozen.
constexpr Nanos k_door_patience = 200ms;

}  // namespace

FileTurnstile::FileTurnstile(const std::string& database_path) : path_(database_path + "-line") {}

FileTurnstile::~FileTurnstile() {
  leave();
}

off_t FileTurnstile::door_of(const lease::Key& key) {
  const std::uint64_t hash = fnv1a(key.bytes());
  constexpr std::uint64_t mask = (std::uint64_t{1} << k_hash_bits) - 1;
  return static_cast<off_t>((hash ^ (hash >> k_hash_bits)) & mask) << k_ticket_bits;
}

Turn FileTurnstile::enter(const lease::Key& key) {
  leave();
  door_ = door_of(key);
  if (!open_file() || !take_ticket()) {
    leave();
    return Turn::none;
  }
  return ticket_ == 1 ? Turn::ours : Turn::not_yet;
}

bool FileTurnstile::open_file() {
  file_ = open_side_file(path_, WhenMissing::make);
  return static_cast<bool>(file_);
}

// Takes a ticket while it holds the door, so that tickets grow in the order of arrival. Meanwhile other
// processes may leave, but none can enter.
bool FileTurnstile::take_ticket() {
  const WakeEvent never;
  if (lock_patiently(F_WRLCK, door_, door_, BootClock::now() + k_door_patience, never) != Tried::got)
    return false;
  const auto last = last_ticket(k_last_ticket);
  if (!last || *last == k_last_ticket) return false;
  ticket_ = *last + 1;
  return lock(F_OFD_SETLK, F_WRLCK, door_ + ticket_, door_ + ticket_) == Tried::got &&
         lock(F_OFD_SETLK, F_UNLCK, door_, door_) == Tried::got;
}

// The highest ticket of another process up to `highest`; 0 if there is none, nullopt if file locks do not
// work. The kernel only names some lock in a range, not the highest. So this search doubles its step upwards
// (tickets are mostly small, `highest` may be huge), and halves the range once a step went too far. It asks
// once for an empty turnstile, else about twice the logarithm of the ticket.
std::optional<off_t> FileTurnstile::last_ticket(off_t highest) const {
  off_t found = 0;
  for (off_t step = 1; found < highest; step *= 2) {
    step = std::min(step, (highest - found + 1) / 2);
    const auto higher = some_ticket(found + step, highest);
    if (!higher) return std::nullopt;
    if (*higher == 0) {
      highest = found + step - 1;
    } else {
      found = *higher;
    }
  }
  return found;
}

std::optional<off_t> FileTurnstile::some_ticket(off_t lowest, off_t highest) const {
  struct flock range {};
  range.l_type = F_RDLCK;  // ignores the read locks that waiters hold for a moment
  range.l_whence = SEEK_SET;
  range.l_start = door_ + lowest;
  range.l_len = highest - lowest + 1;
  if (::fcntl(file_.get(), F_OFD_GETLK, &range) != 0) return std::nullopt;
  return range.l_type == F_UNLCK ? 0 : range.l_start - door_;
}

std::optional<FileTurnstile::Others> FileTurnstile::others() const {
  if (!file_) return std::nullopt;
  const auto before = count_tickets(1, ticket_ - 1);
  const auto behind = count_tickets(ticket_ + 1, k_last_ticket);
  if (!before || !behind) return std::nullopt;
  return Others{*before, *behind};
}

// Counts other processes' tickets. Each ticket found splits its range in two, which are searched next.
std::optional<std::size_t> FileTurnstile::count_tickets(off_t lowest, off_t highest) const {
  std::size_t found = 0;
  std::vector<std::pair<off_t, off_t>> ranges{{lowest, highest}};
  while (!ranges.empty()) {
    const auto [first, last] = ranges.back();
    ranges.pop_back();
    if (first > last) continue;
    const auto ticket = some_ticket(first, last);
    if (!ticket) return std::nullopt;
    if (*ticket == 0) continue;
    ++found;
    ranges.emplace_back(first, *ticket - 1);
    ranges.emplace_back(*ticket + 1, last);
  }
  return found;
}

Turn FileTurnstile::await(BootTime until, const WakeEvent& cancel) {
  if (!file_) return Turn::none;
  for (;;) {
    // Waits only for the position directly before ours, so that a process that leaves wakes one waiter.
    const auto before = last_ticket(ticket_ - 1);
    if (!before) return Turn::none;
    if (*before == 0) return Turn::ours;
    const Tried tried = lock_patiently(F_RDLCK, door_ + *before, door_ + ticket_ - 1, until, cancel);
    if (tried == Tried::interrupted) return cancel.raised() ? Turn::cancelled : Turn::not_yet;
    if (tried != Tried::got) return Turn::none;
    if (lock(F_OFD_SETLK, F_UNLCK, door_ + *before, door_ + ticket_ - 1) != Tried::got) return Turn::none;
  }
}

FileTurnstile::Tried FileTurnstile::lock(int command, short type, off_t first, off_t last) const {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = first;
  range.l_len = last - first + 1;
  if (::fcntl(file_.get(), command, &range) == 0) return Tried::got;
  if (errno == EINTR) return Tried::interrupted;
  return errno == EAGAIN || errno == EACCES ? Tried::refused : Tried::broken;
}

// Waits for the lock. Tried::interrupted once `until` has come or `cancel` is raised.
FileTurnstile::Tried FileTurnstile::lock_patiently(short type, off_t first, off_t last, BootTime until,
                                                   const WakeEvent& cancel) {
  Tried tried = lock(F_OFD_SETLK, type, first, last);
  if (tried != Tried::refused) return tried;
  try {
    interrupter_ = std::make_unique<Interrupter>(until, cancel);
  } catch (const std::system_error&) {  // the system has no thread left
    return Tried::broken;
  }
  do {
    tried = lock(F_OFD_SETLKW, type, first, last);
  } while (tried == Tried::interrupted && !cancel.raised() && BootClock::now() < until);
  interrupter_->over();
  return tried;
}

void FileTurnstile::leave() noexcept {
  file_.reset();
  interrupter_.reset();
}

}  // namespace dblock::store::sqlite
