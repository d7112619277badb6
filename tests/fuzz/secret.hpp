// A password that the targets plant, and look for where none may be.
#pragma once

#include <string>
#include <string_view>

#include "fuzz/fuzz.hpp"

namespace dblock::fuzz {

inline constexpr std::string_view k_secret = "S3cr3tW0rd";

// `shown`: a message, or a name of the database.
inline void demand_no_secret(std::string_view shown, std::string_view input) {
  if (shown.find(k_secret) != std::string_view::npos)
    demand(false, "a password is never shown", std::string(shown) + " for " + std::string(input));
}

}  // namespace dblock::fuzz
