// Raw option values from every source, laid over each other: flag, environment, configuration file, default.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
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

enum class Rank { fallback, system_config, user_config, environment, flag };

// One value and who said so: "--ttl", "DBLOCK_TTL" or "/etc/dblock.conf: ttl".
struct Sourced {
  std::string text;
  std::string label;
  Rank rank = Rank::fallback;

  // The configuration file that says so; empty where none does.
  [[nodiscard]] std::string file() const;

  // The error of a bad value: Errc::config from a file, else Errc::usage; the message starts with the label.
  [[nodiscard]] std::unexpected<Error> refuse(const std::string& why) const;
};

class Values {
 public:
  explicit Values(Scope scope) : scope_(scope) {}

  void add(Rank rank, std::string_view name, std::string text, std::string label);
  // The winner: highest rank, the last one within it. Falls back on the option table.
  [[nodiscard]] std::optional<Sourced> find(std::string_view name) const;
  // Every value of the highest rank that has any.
  [[nodiscard]] std::vector<Sourced> all(std::string_view name) const;

  [[nodiscard]] Scope scope() const { return scope_; }

 private:
  struct Entry {
    std::string_view name;
    Sourced value;
  };
  std::vector<Entry> entries_;
  Scope scope_;
};

// Each fills in one layer.
void add_flags(Values& values, const ParsedWords& parsed);
void add_environment(Values& values, const Surroundings& surroundings);
// --config FILE (must exist), else the system's and the user's file (may be missing). After the other two.
[[nodiscard]] Result<void> add_config_files(Values& values, Subcommand command,
                                            const Surroundings& surroundings);

}  // namespace dblock::cli
