#include "store/sqlite/sqlite_database.hpp"

#include <memory>
#include <utility>

#include "store/sqlite/factory.hpp"

namespace dblock::store::sqlite {

SqliteDatabase::SqliteDatabase(const SqliteSettings& settings, const SessionOptions& options, Clock& clock)
    : connection_(settings, options, clock, SchemaCheck::on), wake_up_(settings.path) {}

Result<Effect> SqliteDatabase::run(Verb verb, const Parameters& parameters) {
  const std::string_view text = sql(verb);
  if (text.empty()) return Effect{};
  if (!facts_of(verb).changes) {
    DBLOCK_TRY(auto rows, connection_.run(text, parameters, Phase::read));
    return Effect{std::move(rows)};
  }
  DBLOCK_TRY(auto done, connection_.change(text, parameters));
  Effect answer{std::move(done.rows), done.changed};
  if (!answer.rows.empty()) answer.reported = unsigned_number(answer.rows.front()[0]);
  return answer;
}

bool SqliteDatabase::refused_null(const Error& why) const {
  return (why.native & 0xffU) == SQLITE_CONSTRAINT;
}

std::unique_ptr<Database> make_database(const SqliteSettings& settings, const SessionOptions& options,
                                        Clock& clock) {
  return std::make_unique<SqliteDatabase>(settings, options, clock);
}

}  // namespace dblock::store::sqlite
