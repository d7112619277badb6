// Formats results as text, JSON or a page of HTML. Text from the store's rows is untrusted, so every report
// escapes it.
#pragma once

#include <string>
#include <vector>

#include "app/use_cases.hpp"
#include "cli/report/output_options.hpp"

namespace dblock::cli {

// The owner id, an `export` line for the shell's eval, or a lease object.
[[nodiscard]] std::string report_acquired(const app::Acquired& acquired, const OutputOptions& output);
// The text for the shell's `eval` when acquire --format shell fails: it makes $? `code`.
[[nodiscard]] std::string report_shell_failure(int code);
[[nodiscard]] std::string report_renewed(const app::RenewedLease& renewed, const OutputOptions& output);
[[nodiscard]] std::string report_released(const app::ReleaseReport& report, const OutputOptions& output);

[[nodiscard]] std::string report_paused(const lease::Paused& paused, const OutputOptions& output);
[[nodiscard]] std::string report_resumed(const lease::Resumed& resumed, const lease::PauseScope& scope,
                                         const OutputOptions& output);

// The table, the document of another format or, with --max-age, --max-held or --max-failures, a line for each
// complaint. Cuts the table to `columns`, unless that is 0.
[[nodiscard]] std::string report_inspected(const app::InspectReport& report,
                                           const app::InspectRequest& request, const OutputOptions& output,
                                           bool color, std::size_t columns = 0);

// The CSV line of column names.
[[nodiscard]] std::string csv_header();
// A CSV line for each holder or free lock.
[[nodiscard]] std::string csv_rows(const lease::Listing& listing);
// The CSV lines of the runs, after a line of column names.
[[nodiscard]] std::string csv_runs(const lease::History& history);

// Self-contained pages with a timeline and a table.
[[nodiscard]] std::string inspect_page(const app::InspectReport& report, bool all);
[[nodiscard]] std::string history_page(const lease::History& history);

// The text format for node_exporter's textfile collector. Each of the `named` keys gets its series even if
// the store does not know the key, because a job that never ran has not succeeded either.
[[nodiscard]] std::string prometheus_text(const lease::Listing& listing,
                                          const std::vector<lease::Key>& named);

// Cuts the table to `columns`, unless that is 0.
[[nodiscard]] std::string report_history(const lease::History& history, const OutputOptions& output,
                                         bool color, std::size_t columns = 0);
[[nodiscard]] std::string report_reaped(const lease::ReapReport& report, const app::ReapRequest& request,
                                        const OutputOptions& output);
[[nodiscard]] std::string report_migrated(const app::MigrateReport& report,
                                          const app::MigrateRequest& request, const OutputOptions& output);
[[nodiscard]] std::string report_doctor(const app::DoctorReport& report, const OutputOptions& output,
                                        bool color);

}  // namespace dblock::cli
