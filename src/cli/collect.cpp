#include "cli/collect.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace dblock::cli {

Result<std::vector<RawOption>> collect_options(std::vector<std::string> words, Scope scope) {
  std::vector<RawOption> collected;
  if (words.empty()) return collected;
  // Only what was typed is declared: building every option costs more than parsing.
  try {
    CLI::App parser;
    parser.set_help_flag();
    std::vector<std::pair<const OptionSpec*, CLI::Option*>> declared;
    for (const auto& spec : option_specs()) {
      const auto spelled = "--" + std::string(spec.name);
      if ((spec.scope & scope) == 0 || std::ranges::find(words, spelled) == words.end()) continue;
      auto* const option = spec.is_flag() ? parser.add_flag(spelled) : parser.add_option(spelled);
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      declared.emplace_back(&spec, option);
    }
    std::ranges::reverse(words);  // parse() takes words from the back
    parser.parse(std::move(words));
    for (const auto& [spec, option] : declared) {
      for (const auto& value : option->results()) collected.push_back({spec->name, value});
    }
  } catch (const std::exception& e) {
    return fail(Errc::internal, std::string("the command line parser failed: ") + e.what());
  }
  return collected;
}

}  // namespace dblock::cli
