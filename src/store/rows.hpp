// Rows as they come back: text fields that may be NULL, and the status row of a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lease/types.hpp"

namespace dblock::store {

using Field = std::optional<std::string>;
using Row = std::vector<Field>;

inline constexpr std::size_t k_status_columns = 29;

// Numbers that are missing or make no sense (a table edited by hand) read as 0.
[[nodiscard]] std::int64_t number(const Field& field);
[[nodiscard]] std::uint64_t unsigned_number(const Field& field);

// A row with k_status_columns columns in the order that rows.cpp lists.
[[nodiscard]] lease::LockStatus read_status(const Row& row);

}  // namespace dblock::store
