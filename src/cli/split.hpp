// Finds where dblock's words end and the job's begin, by the option table alone. The rest of the reader sees
// canonical words only: `--name` or `--name` `value`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/option_spec.hpp"

namespace dblock::cli {

struct SplitWords {
  std::optional<Subcommand> subcommand;
  std::vector<std::string> options;  // canonical; -n has become --wait 0, so that the later of -n and -w wins
  std::vector<std::string> job;      // everything after the options, untouched
  bool help = false;                 // -h or -V was met; nothing after it was looked at
  bool version = false;
  bool no_subcommand = false;               // `error` is that there is none at all
  std::vector<std::size_t> database_words;  // indices of words that hold the value of --db
  std::optional<Error> error;               // Errc::usage; what stands before the fault is still filled in
};

// `words` is argv without the program's name.
[[nodiscard]] SplitWords split_words(const std::vector<std::string>& words);

// "; did you mean --ttl?" or nothing.
[[nodiscard]] std::string suggest_option(std::string_view name, Scope scope);

}  // namespace dblock::cli
