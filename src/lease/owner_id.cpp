#include "lease/owner_id.hpp"

#include <sys/random.h>

#include <array>
#include <cctype>

#include "base/error.hpp"
#include "base/text.hpp"
#include "lease/server_time.hpp"

namespace dblock::lease {
namespace {

constexpr std::size_t k_max_name = 64;
constexpr std::size_t k_digest_size = 16;

std::string random_hex() {
  std::array<unsigned char, 16> bits{};
  // getrandom() of up to 256 bytes is never short; it fails only on kernels without it.
  if (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size()))
    die("cannot draw a random number");
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(bits.size() * 2);
  for (const unsigned char b : bits) {
    text += digits[b >> 4U];
    text += digits[b & 15U];
  }
  return text;
}

std::string plain_name(std::string_view name) {
  std::string text(name.substr(0, k_max_name));
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '@' || c == '-';
    if (!plain) c = '_';
  }
  return text.empty() ? "unknown" : text;
}

}  // namespace

OwnerId make_owner_id(std::string_view name, std::uint32_t pid, std::time_t now, std::string_view digest) {
  std::string stamp = format_time({std::chrono::seconds(now)});  // 2026-11-21T12:41:03.000000Z
  stamp.erase(stamp.find('.'), 7);
  std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
  const std::string process = digest.empty() ? "" : std::string(digest) + "-";
  return OwnerId{plain_name(name) + "-" + std::to_string(pid) + "-" + stamp + "-" + process + random_hex()};
}

std::string display_owner(std::string_view owner) {
  // name-pid-20261121T124103Z-…
  for (auto dash = owner.find('-'); dash != std::string_view::npos; dash = owner.find('-', dash + 1)) {
    const auto stamp = owner.substr(dash + 1, 17);
    if (stamp.size() < 17 || stamp[8] != 'T' || stamp[15] != 'Z' || stamp[16] != '-') continue;
    std::string name(owner.substr(0, dash));
    if (const auto pid = name.rfind('-'); pid != std::string::npos) name[pid] = ':';
    return escape_untrusted(name);
  }
  return escape_untrusted(owner);
}

std::string digest_of(std::string_view owner) {
  owner = owner.substr(0, owner.find('/'));
  const auto random = owner.rfind('-');
  if (random == std::string_view::npos || random <= k_digest_size) return {};
  const std::string_view digest = owner.substr(random - k_digest_size, k_digest_size);
  const bool whole = owner[random - k_digest_size - 1] == '-' &&
                     digest.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return whole ? std::string(digest) : std::string();
}

OwnerId nested_owner_id(const OwnerId& outer) {
  return {outermost(outer).text + "/" + random_hex()};
}

bool is_nested(const OwnerId& owner) {
  return owner.text.find('/') != std::string::npos;
}

OwnerId outermost(const OwnerId& owner) {
  return {owner.text.substr(0, owner.text.find('/'))};
}

}  // namespace dblock::lease
