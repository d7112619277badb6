#include "cli/values.hpp"

#include <utility>

#include "cli/config_file.hpp"

namespace dblock::cli {
namespace {

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

Values::Values(const ParsedWords& parsed, const Surroundings& surroundings)
    : scope_(scope_with(parsed.subcommand)) {
  for (const auto& option : parsed.options)
    add(Rank::flag, option.name, option.value, "--" + std::string(option.name));
  for (const auto& spec : option_specs()) {
    if ((spec.scope & scope_) == 0) continue;
    const auto name = environment_name(spec);
    if (name.empty()) continue;
    if (auto text = surroundings.get(name)) add(Rank::environment, spec.name, std::move(*text), name);
  }
}

void Values::add(Rank rank, std::string_view name, std::string text, std::string label) {
  entries_.push_back({name, {std::move(text), std::move(label), rank}});
}

Result<bool> Values::add_config_file(Rank rank, const std::string& path, Subcommand command) {
  DBLOCK_TRY(const auto text, read_config(path));
  if (!text) return false;
  DBLOCK_TRY(auto lines, parse_config(*text, path, command));
  for (auto& line : lines) add(rank, line.name, std::move(line.value), path + ": " + std::string(line.name));
  return true;
}

Result<void> Values::add_config_files(Subcommand command, const Surroundings& surroundings) {
  if (const auto chosen = find("config")) {
    DBLOCK_TRY(const bool exists, add_config_file(Rank::user_config, chosen->text, command));
    if (!exists)
      return fail(Errc::config, chosen->label + ": there is no file " + chosen->text + "; check the path");
    return {};
  }
  DBLOCK_CHECK(add_config_file(Rank::system_config, surroundings.system_config, command));
  if (const auto path = user_config_path(surroundings))
    DBLOCK_CHECK(add_config_file(Rank::user_config, *path, command));
  return {};
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

bool Values::typed(std::string_view name) const {
  const auto value = find(name);
  return value && value->rank == Rank::flag;
}

}  // namespace dblock::cli
