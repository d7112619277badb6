// The embedded files of sql/; one statement a file (MySQL commits at each DDL statement anyway).
#pragma once

#include <span>

#include "store/schema.hpp"

namespace dblock::store::mariadb {

// In ascending order of version, which count 1, 2, 3, … without holes.
[[nodiscard]] std::span<const Migration> migrations();

// The version this binary knows, and needs at least.
[[nodiscard]] inline unsigned schema_version() {
  return migrations().back().version;
}

}  // namespace dblock::store::mariadb
