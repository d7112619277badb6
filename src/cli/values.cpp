#include "cli/values.hpp"

#include <utility>

#include "cli/config_file.hpp"

namespace dblock::cli {
namespace {

Result<bool> add_config_file(Values& values, Rank rank, const std::string& path, Subcommand command) {
  DBLOCK_TRY(const auto text, read_config(path));
  if (!text) return false;
  DBLOCK_TRY(auto lines, parse_config(*text, path, command));
  for (auto& line : lines) {
    values.add(rank, line.name, std::move(line.value), path + ": " + std::string(line.name));
  }
  return true;
}

// The XDG specification says that relative paths are to be ignored.
std::optional<std::string> user_config_path(const Surroundings& surroundings) {
  if (auto base = surroundings.get("XDG_CONFIG_HOME"); base && base->starts_with('/')) {
    return *base + "/dblock.conf";
  }
  if (auto home = surroundings.get("HOME")) return *home + "/.config/dblock.conf";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> Surroundings::get(const std::string& name) const {
  auto value = variable(name);
  if (value && value->empty()) return std::nullopt;
  return value;
}

std::string Sourced::file() const {
  const bool from_file = rank == Rank::system_config || rank == Rank::user_config;
  return from_file ? label.substr(0, label.rfind(": ")) : std::string();
}

std::unexpected<Error> Sourced::refuse(const std::string& why) const {
  const bool from_file = rank == Rank::system_config || rank == Rank::user_config;
  return fail(from_file ? Errc::config : Errc::usage, label + ": " + why);
}

void Values::add(Rank rank, std::string_view name, std::string text, std::string label) {
  entries_.push_back({name, {std::move(text), std::move(label), rank}});
}

std::optional<Sourced> Values::find(std::string_view name) const {
  auto found = all(name);
  if (found.empty()) return std::nullopt;
  return std::move(found.back());
}

std::vector<Sourced> Values::all(std::string_view name) const {
  std::vector<Sourced> best;
  for (const auto& entry : entries_) {
    if (entry.name != name) continue;
    if (!best.empty() && entry.value.rank < best.front().rank) continue;
    if (!best.empty() && entry.value.rank > best.front().rank) best.clear();
    best.push_back(entry.value);
  }
  if (!best.empty()) return best;
  if (const auto* const spec = find_option(name, scope_); spec != nullptr && !spec->fallback.empty()) {
    best.push_back({std::string(spec->fallback), "--" + std::string(name), Rank::fallback});
  }
  return best;
}

void add_flags(Values& values, const ParsedWords& parsed) {
  for (const auto& option : parsed.options)
    values.add(Rank::flag, option.name, option.value, "--" + std::string(option.name));
}

void add_environment(Values& values, const Surroundings& surroundings) {
  for (const auto& spec : option_specs()) {
    if ((spec.scope & values.scope()) == 0) continue;
    const auto name = environment_name(spec);
    if (name.empty()) continue;
    if (auto text = surroundings.get(name)) values.add(Rank::environment, spec.name, std::move(*text), name);
  }
}

Result<void> add_config_files(Values& values, Subcommand command, const Surroundings& surroundings) {
  if (const auto chosen = values.find("config")) {
    DBLOCK_TRY(const bool exists, add_config_file(values, Rank::user_config, chosen->text, command));
    if (!exists)
      return fail(Errc::config, chosen->label + ": there is no file " + chosen->text + "; check the path");
    return {};
  }
  DBLOCK_TRY([[maybe_unused]] const bool any,
             add_config_file(values, Rank::system_config, surroundings.system_config, command));
  if (const auto path = user_config_path(surroundings)) {
    DBLOCK_TRY([[maybe_unused]] const bool own, add_config_file(values, Rank::user_config, *path, command));
  }
  return {};
}

}  // namespace dblock::cli
