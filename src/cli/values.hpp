// Raw option values from every source, laid over each other: flag, environment, configuration file, default.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "cli/convert.hpp"
#include "cli/option_spec.hpp"
#include "cli/parse.hpp"

namespace dblock::cli {

// What of the process the reader looks at; tests replace it.
struct Surroundings {
  std::function<std::optional<std::string>(const std::string& name)> variable;
  std::string system_config = "/etc/dblock.conf";
  bool root = false;  // the effective user is root

  // The variable's value; nullopt when it is unset or empty.
  [[nodiscard]] std::optional<std::string> get(const std::string& name) const;
};

class Values {
 public:
  // What was typed, and what variables say. Configuration files come by add_config_files().
  Values(const ParsedWords& parsed, const Surroundings& surroundings);

  // --config FILE (must exist), else the system's and the user's file (may be missing).
  [[nodiscard]] Result<void> add_config_files(Subcommand command, const Surroundings& surroundings);

  // The winner: highest rank, the last one within it. Falls back on the option table.
  [[nodiscard]] std::optional<Sourced> find(std::string_view name) const;
  // Every value of the highest rank that has any.
  [[nodiscard]] std::vector<Sourced> all(std::string_view name) const;
  [[nodiscard]] bool typed(std::string_view name) const;  // on the command line

  // The winner as convert() reads it. An option that nobody set and that has no default leaves `into` alone.
  template <typename T>
  [[nodiscard]] Result<void> read(std::string_view name, T& into) const {
    const auto value = find(name);
    return value ? convert(*value, *find_option(name, scope_), into) : Result<void>();
  }
  template <typename T>
  [[nodiscard]] Result<T> get(std::string_view name) const {
    T value{};
    DBLOCK_CHECK(read(name, value));
    return value;
  }

 private:
  struct Entry {
    std::string_view name;
    Sourced value;
  };

  void add(Rank rank, std::string_view name, std::string text, std::string label);
  [[nodiscard]] Result<bool> add_config_file(Rank rank, const std::string& path, Subcommand command);

  Scope scope_;
  std::vector<Entry> entries_;
};

}  // namespace dblock::cli
