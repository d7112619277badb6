#include "store/sqlite/history.hpp"

#include <vector>

#include "store/sqlite/verbs.hpp"

namespace dblock::store::sqlite {

Result<bool> keeps_history(Connection& connection, const std::string& attempt) {
  DBLOCK_TRY(const auto rows, connection.run(sql(Verb::keeps_history), {}, attempt, Phase::read));
  return !rows.empty() && number(rows.front()[0]) > 0;
}

Result<void> keep_history(Connection& connection, bool on, const std::string& attempt) {
  return connection.in_transaction(attempt, [&]() -> Result<void> {
    const std::vector<Verb> begin{Verb::create_history, Verb::create_history_index, Verb::begin_history};
    for (const Verb verb : on ? begin : std::vector{Verb::end_history})
      DBLOCK_CHECK(connection.run_script(std::string(sql(verb)), attempt));
    // Changes a row, because in_transaction() rolls back a transaction without changes.
    return connection.run_script("UPDATE dblock_state SET changes=changes", attempt);
  });
}

}  // namespace dblock::store::sqlite
