// Files that the binary carries: the completions, and the template of the pages.
#pragma once

#include <string_view>

namespace dblock::cli {

// The content of `dblock.bash`, `_dblock`, `dblock.fish` (completions/) or `page.html`; empty for any other
// name.
[[nodiscard]] std::string_view embedded_file(std::string_view name);

}  // namespace dblock::cli
