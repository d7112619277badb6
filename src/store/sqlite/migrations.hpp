// The embedded files of sql/sqlite/. Each holds any number of statements, all run in one transaction.
#pragma once

#include <span>

#include "store/schema.hpp"

namespace dblock::store::sqlite {

// In ascending order of version; versions count 1, 2, 3, … without gaps.
[[nodiscard]] std::span<const Migration> migrations();

// The newest version that this binary knows; it migrates older stores.
[[nodiscard]] inline unsigned schema_version() {
  return migrations().back().version;
}

}  // namespace dblock::store::sqlite
