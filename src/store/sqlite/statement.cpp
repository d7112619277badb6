// The functions of Connection that prepare statements, bind their parameters, and run them.
#include <algorithm>
#include <array>
#include <utility>

#include "store/sqlite/connection.hpp"

namespace dblock::store::sqlite {
namespace {

// The parameters that bind_clocks() binds.
constexpr std::array<std::string_view, 4> k_of_the_moment{"boot", "wall", "offset", "boot_id"};

// Binds a value. A token beyond SQLite's integers was never granted; as a negative number it matches no row.
void bind_value(sqlite3_stmt* statement, int index, const Scalar& value) {
  const auto bind_text = [&](std::string_view text) {
    ::sqlite3_bind_text64(statement, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  };
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    ::sqlite3_bind_int64(statement, index, *number);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&value)) {
    ::sqlite3_bind_int64(statement, index, static_cast<std::int64_t>(*natural));
  } else if (const auto* word = std::get_if<Word>(&value)) {
    bind_text(word->text);
  } else if (const auto* text = std::get_if<Text>(&value)) {
    bind_text(text->text);
  } else if (const auto* bytes = std::get_if<std::string>(&value)) {
    bind_text(*bytes);
  } else {
    ::sqlite3_bind_null(statement, index);
  }
}

// The placeholders for a list's values: ?,? or, with several columns, (?,?),(?,?).
std::string placeholders_of(const List& list) {
  std::string text;
  for (std::size_t i = 0; i < list.values.size(); ++i) {
    if (i > 0) text += ',';
    if (list.columns > 1 && i % list.columns == 0) text += '(';
    text += '?';
    if (list.columns > 1 && (i + 1) % list.columns == 0) text += ')';
  }
  return text;
}

// The statement with a placeholder for each value of its lists; appends those values to `listed`, in their
// order.
std::string with_placeholders(std::string_view sql, const Parameters& parameters,
                              std::vector<const Scalar*>& listed) {
  std::string text;
  std::size_t done = 0;
  for (auto next = find_parameter(sql, 0); next.colon != std::string_view::npos;
       next = find_parameter(sql, next.colon + 1)) {
    const Value* value = value_of(parameters, next.name);
    const auto* list = value != nullptr ? std::get_if<List>(value) : nullptr;
    if (list == nullptr) continue;
    text.append(sql.substr(done, next.colon - done)).append(placeholders_of(*list));
    done = next.colon + 1 + next.name.size();
    for (const auto& one : list->values) listed.push_back(&one);
  }
  return text.append(sql.substr(done));
}

Row row_of(sqlite3_stmt* statement) {
  Row row(static_cast<std::size_t>(::sqlite3_column_count(statement)));
  for (int i = 0; i < static_cast<int>(row.size()); ++i) {
    const auto column = static_cast<std::size_t>(i);
    const int type = ::sqlite3_column_type(statement, i);
    if (type == SQLITE_NULL) continue;
    if (type == SQLITE_INTEGER) {
      row.set(column, std::to_string(::sqlite3_column_int64(statement, i)));
      continue;
    }
    const void* bytes = ::sqlite3_column_blob(statement, i);
    const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(statement, i));
    row.set(column, bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size));
  }
  return row;
}

}  // namespace

Result<sqlite3_stmt*> Connection::prepare(std::string_view sql) {
  const auto known = std::ranges::find_if(
      statements_, [sql](const Statement& statement) { return sql == ::sqlite3_sql(statement.get()); });
  if (known != statements_.end()) return known->get();
  sqlite3_stmt* raw = nullptr;
  for (int tries = 0;; ++tries) {
    const int code =
        ::sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
    if (code == SQLITE_OK) return statements_.emplace_back(raw).get();
    if (!is_busy(code) || !pause_for_others(tries)) return std::unexpected(failure(code, Phase::read));
  }
}

// The caller must keep the values alive until the statement has ended. Fails if a value is missing: with NULL
// in its place the statement could match more rows than the caller meant.
Result<sqlite3_stmt*> Connection::prepare(std::string_view sql, const Parameters& parameters) {
  std::vector<const Scalar*> listed;
  DBLOCK_TRY(sqlite3_stmt* const statement, prepare(with_placeholders(sql, parameters, listed)));
  auto next = listed.begin();
  for (int index = 1; index <= ::sqlite3_bind_parameter_count(statement); ++index) {
    const char* const name = ::sqlite3_bind_parameter_name(statement, index);
    if (name == nullptr) {
      bind_value(statement, index, **next++);
      continue;
    }
    if (std::ranges::find(k_of_the_moment, std::string_view(name + 1)) != k_of_the_moment.end()) continue;
    const Value* value = value_of(parameters, name + 1);
    if (value == nullptr) return std::unexpected(failure(SQLITE_MISUSE, Phase::read));
    bind_value(statement, index, std::get<Scalar>(*value));
  }
  return statement;
}

void Connection::bind_clocks(sqlite3_stmt* statement) {
  if (::sqlite3_bind_parameter_count(statement) == 0) return;
  const TwoClocks now = clocks_now(clock_, boot_);
  const auto number = [statement](const char* name, Micros value) {
    const int index = ::sqlite3_bind_parameter_index(statement, name);
    if (index != 0) ::sqlite3_bind_int64(statement, index, value.count());
  };
  number(":boot", now.boot);
  number(":wall", now.wall);
  number(":offset", now.offset());
  const int index = ::sqlite3_bind_parameter_index(statement, ":boot_id");
  if (index != 0) {
    ::sqlite3_bind_text64(statement, index, boot_.id.data(), boot_.id.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
}

int Connection::step_through(sqlite3_stmt* statement, std::vector<Row>& rows) {
  rows.clear();
  bind_clocks(statement);
  for (;;) {
    const int code = ::sqlite3_step(statement);
    if (code != SQLITE_ROW) return code;
    rows.push_back(row_of(statement));
  }
}

Result<std::vector<Row>> Connection::run(std::string_view sql, const Parameters& parameters, Phase phase) {
  DBLOCK_TRY(sqlite3_stmt* const prepared, prepare(sql, parameters));
  const StatementUse statement(prepared);
  std::vector<Row> rows;
  for (int tries = 0;; ++tries) {
    const int code = step_through(statement.get(), rows);
    if (code == SQLITE_DONE) return rows;
    Error error = failure(code, phase);
    ::sqlite3_reset(statement.get());
    // Waits here instead of in SQLite's busy handler, so that each try reads the clock anew.
    if (!is_busy(code) || !pause_for_others(tries)) return std::unexpected(std::move(error));
  }
}

void Connection::prepare_ahead(std::string_view sql) noexcept {
  if (!handle_) return;
  [[maybe_unused]] const auto prepared = prepare(sql);
}

Result<ChangeEffect> Connection::change(std::string_view sql, const Parameters& parameters) {
  // Prepares before the transaction, so that the write lock is held only for microseconds.
  DBLOCK_TRY(sqlite3_stmt* const prepared, prepare(sql, parameters));
  const StatementUse statement(prepared);
  ChangeEffect done;
  const auto body = [&]() -> Result<void> {
    const int code = step_through(statement.get(), done.rows);
    done.changed = static_cast<std::uint64_t>(::sqlite3_changes64(handle_.get()));
    Result<void> ended;
    if (code != SQLITE_DONE) ended = std::unexpected(failure(code, Phase::write));
    ::sqlite3_reset(statement.get());  // a transaction cannot end while a statement is active
    return ended;
  };
  DBLOCK_CHECK(transaction_open() ? body() : in_transaction(body));
  return done;
}

Result<void> Connection::run_script(const std::string& sql) {
  for (int tries = 0;; ++tries) {
    const int code = ::sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return {};
    if (!is_busy(code) || !pause_for_others(tries)) return std::unexpected(failure(code, Phase::write));
  }
}

}  // namespace dblock::store::sqlite
