// FNV-1a (draft-eastlake-fnv), 64 bits: tells a few things apart; no protection against an attacker.
#pragma once

#include <cstdint>
#include <string_view>

namespace dblock {

[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace dblock
