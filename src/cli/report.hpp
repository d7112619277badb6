// Results as text or JSON. Text from rows is untrusted and escaped wherever it is shown.
#pragma once

#include <string>

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
