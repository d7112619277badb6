#include "store/mariadb/examiner_session.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace dblock::store::mariadb {
namespace {

Reply reply_of(const ServerError& error) {
  constexpr unsigned k_column_denied = 1143;
  constexpr unsigned k_routine_denied = 1370;
  if (error.native == k_no_such_table) return Reply::no_table;
  if (error.native == k_no_such_key) return Reply::no_key;
  const bool denied =
      error.native == k_table_denied || error.native == k_column_denied || error.native == k_routine_denied;
  return denied ? Reply::denied : Reply::refused;
}

}  // namespace

std::unexpected<Refusal> refusal(const ServerError& error) {
  return std::unexpected(
      Refusal{reply_of(error), error.text + " (error " + std::to_string(error.native) + ")"});
}

std::expected<RowSet, ServerError> ExaminerSession::ask(const std::string& sql) {
  if (api().mysql_real_query(handle_.get(), sql.data(), sql.size()) != 0) return refused();
  auto table = fetch_rows(handle_.get(), MemoryLimit::few);
  if (table) std::ranges::transform(table->names, table->names.begin(), lower_case);
  return table;
}

std::expected<RowSet, ServerError> ExaminerSession::call(const std::string& sql) {
  auto answer = ask(sql);
  while (answer && api().mysql_next_result(handle_.get()) == 0)
    [[maybe_unused]] const auto status = fetch_rows(handle_.get(), MemoryLimit::few);
  return answer;
}

std::string ExaminerSession::value(const std::string& sql) {
  const auto table = ask(sql);
  return table && !table->rows.empty() ? table->rows.front()[0].value_or("") : "";
}

Reply ExaminerSession::attempt(const std::string& sql) {
  const auto answer = ask(sql);
  return answer ? Reply::answered : reply_of(answer.error());
}

Names ExaminerSession::names(const std::string& sql) {
  Names names;
  const auto table = ask(sql);
  if (!table || table->names.size() < 2) return names;
  for (const auto& row : table->rows) names.emplace(lower_case(row[0].value_or("")), row[1].value_or(""));
  return names;
}

std::string ExaminerSession::cipher() {
  const char* const name = api().mysql_get_ssl_cipher(handle_.get());
  return name == nullptr ? "" : name;
}

std::unexpected<ServerError> ExaminerSession::refused() {
  ServerError error = last_error(handle_.get());
  if (!broken_ && is_client_side(error.native)) broken_ = error;
  return std::unexpected(std::move(error));
}

}  // namespace dblock::store::mariadb
