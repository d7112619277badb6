// argv -> the options that were typed, and the job's words. CLI11 parses. What it cannot tell is told here:
// the order across options, the word at which each was typed, and what is wrong, in dblock's words.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "cli/option_spec.hpp"

namespace dblock::cli {

struct TypedOption {
  std::string_view name;  // as in the option table; --nonblock has become --wait 0: the later of both wins
  std::string value;      // "true" for a flag
  std::size_t word = 0;   // index of the word that holds the value
};

struct ParsedWords {
  std::vector<std::string> words;  // as typed, after the program's name
  std::optional<Subcommand> subcommand;
  std::vector<TypedOption> options;  // in the order typed
  std::vector<std::string> job;      // the last of `words`, untouched
  bool help = false;                 // -h or -V was met; nothing after it was looked at
  bool version = false;
  bool no_subcommand = false;  // `error` is that there is none at all
  std::optional<Error> error;  // Errc::usage; what stands before the fault is still filled in
};

// dblock's words end at the first bare `--`, or before the first word that is neither an option nor a value.
[[nodiscard]] ParsedWords parse_words(std::vector<std::string> words);

// "; did you mean --ttl?" or nothing.
[[nodiscard]] std::string suggest_option(std::string_view name, Scope scope);

}  // namespace dblock::cli
