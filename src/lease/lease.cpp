#include "lease/lease.hpp"

#include <algorithm>
#include <cstddef>

#include "base/text.hpp"

namespace dblock::lease {
namespace {

constexpr std::size_t k_max_key_bytes = 255;  // width of the lock_key column

}  // namespace

std::vector<Key> keys_of(const Key& first, const std::vector<Key>& further_keys) {
  std::vector<Key> keys{first};
  keys.insert(keys.end(), further_keys.begin(), further_keys.end());
  return keys;
}

Result<Key> Key::parse(std::string_view bytes) {
  if (bytes.empty()) return fail(Errc::usage, "a key must not be empty; give the lock a name");
  if (bytes.size() > k_max_key_bytes) {
    return fail(Errc::usage, "a key has at most " + std::to_string(k_max_key_bytes) +
                                 " bytes, this one has " + std::to_string(bytes.size()) +
                                 "; choose a shorter name");
  }
  if (!is_utf8(bytes)) {
    return fail(Errc::usage,
                "a key must be valid UTF-8, and \"" + escape_untrusted(bytes) + "\" is not; rename it");
  }
  if (has_control_character(bytes)) {
    return fail(Errc::usage, "a key must not hold control characters such as newlines, and \"" +
                                 escape_untrusted(bytes) + "\" does; rename it");
  }
  return Key(std::string(bytes));
}

std::string display_holder(const Holder& holder) {
  std::string text;
  if (!holder.user.empty()) text = escape_untrusted(holder.user) + "@";
  text += escape_untrusted(holder.host);
  return holder.pid == 0 ? text : text + ":" + std::to_string(holder.pid);
}

LeaseRef ref_to(const Lease& lease) {
  return {lease.key, lease.owner, lease.token, lease.further_keys, lease.sharing.mode, lease.rows};
}

std::optional<std::uint32_t> slot_of(const LeaseRef& ref) {
  if (!ref.rows.empty()) return ref.rows.front();
  return ref.mode == Mode::exclusive ? std::optional(0U) : std::nullopt;
}

LeaseRef part_of(const LeaseRef& ref, const Key& key) {
  LeaseRef part{key, ref.owner, ref.token, {}, ref.mode};
  const auto other = std::ranges::find(ref.further_keys, key);
  const auto at = key == ref.key ? 0 : static_cast<std::size_t>(other - ref.further_keys.begin()) + 1;
  if (at < ref.rows.size()) part.rows = {ref.rows[at]};
  return part;
}

std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::shared:
      return "shared";
    case Mode::slot:
      return "slot";
    default:
      return "exclusive";
  }
}

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::acquire:
      return "acquire";
    case Kind::sql:
      return "sql";
    case Kind::run:
      break;
  }
  return "run";
}

Kind parse_kind(std::string_view text) {
  for (const Kind kind : {Kind::acquire, Kind::sql})
    if (text == to_string(kind)) return kind;
  return Kind::run;
}

}  // namespace dblock::lease
