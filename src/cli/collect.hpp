// The only user of CLI11: canonical option words become (option, raw value) pairs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "cli/option_spec.hpp"

namespace dblock::cli {

struct RawOption {
  std::string_view name;
  std::string value;  // "true" for a flag
};

// `words` as split_words() yields them. Values of a repeated option keep their order. Errc::internal when
// CLI11 does not agree with the splitter.
[[nodiscard]] Result<std::vector<RawOption>> collect_options(std::vector<std::string> words, Scope scope);

}  // namespace dblock::cli
