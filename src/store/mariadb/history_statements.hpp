// The statements about dblock_history, the record of runs that have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lease/store.hpp"
#include "store/lock_table.hpp"
#include "store/rows.hpp"

namespace dblock::store::mariadb {

// A run that has ended and is not in the history yet.
struct EndedRun {
  std::string key;
  lease::Token token;
  std::string owner;
  bool was_released = true;
  lease::RunEnd end;
  // As far as they are known here; the row tells too, until its next grant.
  lease::Kind kind = lease::Kind::run;
  lease::Mode mode = lease::Mode::exclusive;
  lease::Holder holder{};
};

// A second try of this does no harm.
[[nodiscard]] std::string create_history_statement();
[[nodiscard]] std::string begin_history_statement();
[[nodiscard]] std::string end_history_statement();
[[nodiscard]] std::string keeps_history_statement();
// Whether runs are recorded, and the server's time.
[[nodiscard]] std::string history_state_statement();
// Whether there is a table that this account may see.
[[nodiscard]] std::string history_is_there_statement();

[[nodiscard]] std::string record_run_statement(const EndedRun& run);
// Rows for read_recorded_run(), of one key or of all; the run that ended last first.
[[nodiscard]] std::string select_runs_statement(const lease::Key* key, std::optional<Micros> since,
                                                std::size_t limit);
[[nodiscard]] std::string count_old_runs_statement(Micros forget_after);
// Primary keys of the oldest of them: key, end in microseconds, token.
[[nodiscard]] std::string select_old_runs_statement(Micros forget_after, std::size_t limit);
[[nodiscard]] std::string forget_runs_statement(const std::vector<Row>& batch);

}  // namespace dblock::store::mariadb
