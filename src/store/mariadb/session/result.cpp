#include "store/mariadb/session/result.hpp"

#include <sys/socket.h>

#include <utility>

#include "store/mariadb/session/login.hpp"

namespace dblock::store::mariadb {
namespace {

Row copy_row(MYSQL_RES* result, MYSQL_ROW fields, std::size_t& memory) {
  const unsigned long* const lengths = api().mysql_fetch_lengths(result);
  Row row(api().mysql_num_fields(result));
  memory += row.size() * sizeof(Field);
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (fields[i] == nullptr) continue;
    row.set(i, {fields[i], lengths[i]});
    memory += lengths[i];
  }
  return row;
}

std::vector<std::string> column_names(MYSQL_RES* result) {
  const MYSQL_FIELD* const fields = api().mysql_fetch_fields(result);
  std::vector<std::string> names;
  for (unsigned i = 0; i < api().mysql_num_fields(result); ++i) names.emplace_back(fields[i].name);
  return names;
}

}  // namespace

std::expected<RowSet, ServerError> fetch_rows(MYSQL* handle, MemoryLimit limit) {
  const ResultSet result(api().mysql_use_result(handle));
  if (!result && api().mysql_errno(handle) == 0) return std::unexpected(ServerError{0, "it holds no rows"});
  if (!result) return std::unexpected(last_error(handle));
  RowSet reply{column_names(result.get()), {}};
  std::size_t memory = 0;
  while (MYSQL_ROW fields = api().mysql_fetch_row(result.get())) {
    reply.rows.push_back(copy_row(result.get(), fields, memory));
    if (memory <= static_cast<std::size_t>(limit)) continue;
    // Without the shutdown, freeing the result would read the reply to its end.
    ::shutdown(api().mysql_get_socket(handle), SHUT_RDWR);
    return std::unexpected(ServerError{0, "it has more rows than dblock's tables could hold"});
  }
  if (api().mysql_errno(handle) != 0) return std::unexpected(last_error(handle));
  return reply;
}

}  // namespace dblock::store::mariadb
