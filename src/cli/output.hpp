// Results on stdout: whole or with an error, never half and silent.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/error.hpp"
#include "cli/command_line.hpp"

namespace dblock::cli {

// Writes all of `text` to stdout. Errc::internal when that fails (a closed pipe, a full disk); SIGPIPE does
// not end the process, so that the failure gets its exit line.
[[nodiscard]] Result<void> write_result(std::string_view text);

// Whether colours belong into what goes to stdout.
[[nodiscard]] bool wants_color(Color color, const Surroundings& surroundings);

// The columns of the terminal that stdout is, or of COLUMNS; 0 where stdout is none.
[[nodiscard]] std::size_t columns_of_stdout(const Surroundings& surroundings);

}  // namespace dblock::cli
