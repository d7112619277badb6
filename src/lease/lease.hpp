// A lease, and what names, describes and limits it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace dblock::lease {

// Name of a lock: 1 to 255 bytes of well-formed UTF-8 without control characters, compared byte by byte.
class Key {
 public:
  [[nodiscard]] static Result<Key> parse(std::string_view bytes);  // Errc::usage
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  auto operator<=>(const Key&) const = default;

 private:
  explicit Key(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string bytes_;
};

// `first` and then `further_keys`, as one list.
[[nodiscard]] std::vector<Key> keys_of(const Key& first, const std::vector<Key>& further_keys);

// Unique per acquisition: a readable prefix and 128 random bits. A name, not a credential.
struct OwnerId {
  std::string text;
  auto operator<=>(const OwnerId&) const = default;
};

// Fencing token: strictly increases with every grant of its key, for ever. It is at least the server's time
// of the grant in microseconds since the epoch.
struct Token {
  std::uint64_t value = 0;
  auto operator<=>(const Token&) const = default;
};

enum class Kind {
  run,      // held by a live `dblock run`, which renews it; only that run, its guardian or --force ends it
  acquire,  // held on behalf of a script by `dblock acquire`; `renew` and `release` work on it
  sql,      // held by an application, which takes, renews and releases it by the procedures of sql/procedures
};

// How a lock is held. Exclusive and shared requests (writers and readers) may wait for each other. All slot
// requests of a lock must name the same number of slots, and no other mode goes with them.
enum class Mode {
  exclusive,  // one holder alone, a writer
  shared,     // any number of holders, called readers
  slot,       // up to a number of holders, each in a numbered slot of its own
};

// How a request asks for a lock, and how a holder was granted it.
struct Sharing {
  Mode mode = Mode::exclusive;
  std::uint32_t slots = 1;  // Mode::slot: the most holders at a time
  auto operator<=>(const Sharing&) const = default;
};

// The lengths stored with a lease. `heartbeat` is the interval at which the holder promises to renew; nullopt
// where no process renews by itself (`dblock acquire --ttl`).
struct Terms {
  Micros ttl{0};
  Micros margin{0};  // lease margin: extra time after expire_time before anyone may take over
  std::optional<Micros> heartbeat;
};

// Describes the holder of a lock, as stored in its row. Text that is read back is untrusted.
struct Holder {
  std::string host;
  std::uint32_t pid = 0;  // 0: not known, as of an application
  std::string user;
  std::string command;  // program name, or the whole command line with --record-args
  std::string note;
};

// A grant, as its holder knows it.
struct Lease {
  Key key;
  std::vector<Key> further_keys{};  // further keys of the same acquisition, sorted, after `key`
  OwnerId owner;
  Token token;
  Terms terms;
  BootTime sent_at;  // local time before the statement that granted or last renewed it was sent
  bool needs_renewal_proof = false;  // found by read-back after a lost reply: renew once before relying on it
  Sharing sharing{};
  std::uint32_t slot = 0;  // Mode::slot: its number, from 1 on; else 0
  // The row number of each key's lease, in the order of the keys. Empty where the lease is exclusive, or the
  // rows are not known.
  std::vector<std::uint32_t> rows{};
};

// Names a lease for renew and release: by key and owner id, and by token where that is known.
struct LeaseRef {
  Key key;
  OwnerId owner;
  std::optional<Token> token;
  std::vector<Key> further_keys{};  // further keys that are renewed and released with it
  std::optional<Mode> mode{};       // nullopt: not known, so leases of every mode are looked for
  // As Lease::rows. Where neither `mode` nor `rows` tells the row, the lease is looked for in all rows of its
  // key.
  std::vector<std::uint32_t> rows{};
};
[[nodiscard]] LeaseRef ref_to(const Lease& lease);
// The row of the first key's lease, 0 for an exclusive one; nullopt where it is not known.
[[nodiscard]] std::optional<std::uint32_t> slot_of(const LeaseRef& ref);
// The part of `ref` that concerns `key`. REQUIRES: `key` is one of its keys.
[[nodiscard]] LeaseRef part_of(const LeaseRef& ref, const Key& key);

// "user@host:pid" as far as they are known, untrusted text escaped.
[[nodiscard]] std::string display_holder(const Holder& holder);
[[nodiscard]] std::string_view to_string(Kind kind);
// What the stored word stands for; run where it is none of them.
[[nodiscard]] Kind parse_kind(std::string_view text);
[[nodiscard]] std::string_view to_string(Mode mode);

}  // namespace dblock::lease
