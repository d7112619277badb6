// The rows of a reply, taken in one by one and no more of them than there may be: a server that is not what
// it seems may send rows for ever.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <vector>

#include "store/mariadb/client_library.hpp"
#include "store/mariadb/errors.hpp"
#include "store/rows.hpp"

namespace dblock::store::mariadb {

// How much of this process's memory the rows of one reply may take.
enum class Most : std::size_t {
  few = std::size_t{16} << 20U,
  list = std::size_t{2} << 30U,  // all of a table with a million locks
};

// A packet has at most a row, which is a few KiB.
inline constexpr std::size_t k_largest_packet = std::size_t{16} << 20U;

struct Table {
  std::vector<std::string> names;  // of the columns
  std::vector<Row> rows;
};

// The reply to the statement that was sent last. With 0 as the error it is none to a question for rows, as
// the text says; what has not been read of it is left, and the connection of no more use.
[[nodiscard]] std::expected<Table, ServerWords> fetch_table(MYSQL* handle, Most most);

}  // namespace dblock::store::mariadb
