// The table of history, shared by its report and by its page (private to both).
#pragma once

#include <string>
#include <vector>

#include "cli/report/table.hpp"
#include "lease/store.hpp"

namespace dblock::cli {

// The header, then a row for each run.
[[nodiscard]] std::vector<TableRow> history_rows(const lease::History& history);

// "12m3s"; "-" where it is not known.
[[nodiscard]] std::string duration_of(const lease::RecordedRun& run);
// "failed (3 attempts)"; "unknown" where it is not known.
[[nodiscard]] std::string outcome_of(const lease::RecordedRun& run);
// "user@host:pid (command)", escaped; "-" where it is not known.
[[nodiscard]] std::string holder_of(const lease::RecordedRun& run);

}  // namespace dblock::cli
