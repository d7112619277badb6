// Reads the rows of a reply one by one, up to a limit: a false server might send rows without end.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <vector>

#include "store/mariadb/session/client_library.hpp"
#include "store/mariadb/session/errors.hpp"
#include "store/rows.hpp"

namespace dblock::store::mariadb {

// Memory limit for the rows of one reply, in bytes.
enum class MemoryLimit : std::size_t {
  few = std::size_t{16} << 20U,
  list = std::size_t{2} << 30U,  // enough for all rows of a table with a million locks
};

// Limit for one packet, in bytes. A packet holds at most one row, which is a few KiB.
inline constexpr std::size_t k_largest_packet = std::size_t{16} << 20U;

struct RowSet {
  std::vector<std::string> names;  // the columns' names
  std::vector<Row> rows;
};

// Reads the reply to the last statement. On failure: the server's error; or error 0 with a text if the reply
// holds no rows or exceeds `limit`. After error 0 part of the reply is unread: close the connection.
[[nodiscard]] std::expected<RowSet, ServerError> fetch_rows(MYSQL* handle, MemoryLimit limit);

}  // namespace dblock::store::mariadb
