// The embedded files of sql/sqlite/; any number of statements a file, run in one transaction.
#pragma once

#include <span>

#include "store/schema.hpp"

namespace dblock::store::sqlite {

// In ascending order of version, which count 1, 2, 3, … without holes.
[[nodiscard]] std::span<const Migration> migrations();

// The version this binary knows, and needs at least.
[[nodiscard]] inline unsigned schema_version() {
  return migrations().back().version;
}

}  // namespace dblock::store::sqlite
