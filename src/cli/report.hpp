// Results as text or JSON. Text from rows is untrusted and escaped wherever it is shown.
#pragma once

#include <string>
#include <vector>

#include "app/use_cases.hpp"
#include "cli/command_line.hpp"

namespace dblock::cli {

// The owner id, `export` lines for eval, or a lease object.
[[nodiscard]] std::string report_acquired(const app::Acquired& acquired, const OutputOptions& output);
// What `eval` is to see when acquire --format shell fails.
[[nodiscard]] std::string report_shell_failure(int code);
[[nodiscard]] std::string report_renewed(const app::RenewedLease& renewed, const OutputOptions& output);
[[nodiscard]] std::string report_released(const app::ReleaseReport& report, const OutputOptions& output);

// The table, the document of another format or, with --max-age, a line for each stale key. The table is cut
// to a terminal's `columns`, where there are any.
[[nodiscard]] std::string report_inspected(const app::InspectReport& report,
                                           const app::InspectRequest& request, const OutputOptions& output,
                                           bool color, std::size_t columns = 0);

// CSV: the line of column names, and a line for each holder or free lock.
[[nodiscard]] std::string csv_header();
[[nodiscard]] std::string csv_rows(const lease::Listing& listing);

// The text format for node_exporter's textfile collector. Each of `named` has its series even when the store
// knows nothing of it: a job that never ran has not succeeded lately.
[[nodiscard]] std::string prometheus_text(const lease::Listing& listing,
                                          const std::vector<lease::Key>& named);

// Cut to `columns` as the table of inspect.
[[nodiscard]] std::string report_history(const lease::History& history, const OutputOptions& output,
                                         bool color, std::size_t columns = 0);
[[nodiscard]] std::string report_reaped(const lease::ReapReport& report, const app::ReapRequest& request,
                                        const OutputOptions& output);
[[nodiscard]] std::string report_migrated(const app::MigrateReport& report,
                                          const app::MigrateRequest& request, const OutputOptions& output);
[[nodiscard]] std::string report_doctor(const app::DoctorReport& report, const OutputOptions& output,
                                        bool color);

}  // namespace dblock::cli
