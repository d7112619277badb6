// Splits argv into the options that were typed and the job's words. CLI11 does the parsing; this code adds
// what CLI11 cannot tell: the order across options, the word at which each stands, and dblock's own messages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "cli/options/option_spec.hpp"

namespace dblock::cli {

struct TypedOption {
  std::string_view name;  // as in the option table; --nonblock becomes --wait 0, so the later of both wins
  std::string value;      // "true" for a flag
  std::size_t word = 0;   // index in ParsedWords::words of the word that holds the value
};

struct ParsedWords {
  std::vector<std::string> words;  // as typed, after the program's name
  std::optional<Subcommand> subcommand;
  std::vector<TypedOption> options;  // in the order typed
  // The last of `words`, unchanged: the job's command and arguments; of help and completion what to print.
  std::vector<std::string> job;
  bool help = false;           // -h or --help; the words after it were not read
  bool version = false;        // -V or --version; the words after it were not read
  bool no_subcommand = false;  // `error` says that the command line has no subcommand at all
  std::optional<Error> error;  // Errc::usage; the members hold the words before the fault
};

// Never fails: `error` holds the fault. dblock's own words end at the first bare `--`, else before the first
// word that is neither an option nor a value nor a subcommand; the job's words follow.
[[nodiscard]] ParsedWords parse_words(std::vector<std::string> words);

// The message for a word that is no subcommand, with the one that it resembles.
[[nodiscard]] std::string unknown_subcommand(const std::string& word);

// "; did you mean --ttl?", or empty if no option of `scope` resembles `name`.
[[nodiscard]] std::string suggest_option(std::string_view name, Scope scope);

}  // namespace dblock::cli
