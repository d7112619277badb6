// The embedded files of sql/. Each holds one statement: MySQL commits at each DDL statement anyway.
#pragma once

#include <span>

#include "store/schema.hpp"

namespace dblock::store::mariadb {

// In ascending order of version; versions count 1, 2, 3, … without gaps.
[[nodiscard]] std::span<const Migration> migrations();

// The newest version that this binary knows, and the oldest that it works with.
[[nodiscard]] inline unsigned schema_version() {
  return migrations().back().version;
}

}  // namespace dblock::store::mariadb
