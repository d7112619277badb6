// Writes results to stdout. An incomplete result is always an error.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/error.hpp"
#include "cli/command_line.hpp"

namespace dblock::cli {

// Writes all of `text` to stdout. Errc::internal with errno if that fails (closed pipe, full disk). SIGPIPE
// does not end the process at once, since `acquire` must release a lease whose owner id nobody has read.
[[nodiscard]] Result<void> write_result(std::string_view text);

// True if results on stdout shall have colours.
[[nodiscard]] bool wants_color(Color color, const Environment& environment);

// Width to which tables on stdout are cut: COLUMNS, else the terminal's width. 0 if stdout is no terminal.
[[nodiscard]] std::size_t columns_of_stdout(const Environment& environment);

}  // namespace dblock::cli
