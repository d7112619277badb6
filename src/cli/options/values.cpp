#include "cli/options/values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/options/config_file.hpp"

namespace dblock::cli {
namespace {

// Ignores a relative XDG_CONFIG_HOME, as the XDG specification demands.
std::optional<std::string> user_config_path(const Environment& environment) {
  if (auto base = environment.get("XDG_CONFIG_HOME"); base && base->starts_with('/')) {
    return *base + "/dblock.conf";
  }
  if (auto home = environment.get("HOME")) return *home + "/.config/dblock.conf";
  return std::nullopt;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [stop, fault] = std::from_chars(text.begin(), text.end(), value);
  if (text.empty() || fault != std::errc{} || stop != text.end()) return std::nullopt;
  return value;
}

// 1/true/yes/on and 0/false/no/off, in any case.
std::optional<bool> parse_bool(std::string_view text) {
  const auto word = upper(text);
  if (word == "1" || word == "TRUE" || word == "YES" || word == "ON") return true;
  if (word == "0" || word == "FALSE" || word == "NO" || word == "OFF") return false;
  return std::nullopt;
}

Result<void> check_bounds(const Sourced& value, const ValueSpec& spec, std::uint64_t size) {
  const Bounds& bounds = spec.bounds;
  if (size >= bounds.least && size <= bounds.most) return {};
  if (spec.kind == Kind::count && size > bounds.most)
    return value.refuse(quote_untrusted(value.text) + " is more than " + std::to_string(bounds.most));
  if (!bounds.refusal.empty()) return value.refuse(std::string(bounds.refusal));
  return value.refuse("must be at least " + std::to_string(bounds.least));
}

}  // namespace

std::optional<std::string> Environment::get(const std::string& name) const {
  auto value = variable(name);
  if (value && value->empty()) return std::nullopt;
  return value;
}

std::string Sourced::file() const {
  const bool from_file = rank == Rank::system_config || rank == Rank::user_config;
  return from_file ? label.substr(0, label.rfind(": ")) : std::string();
}

std::unexpected<Error> Sourced::refuse(const std::string& why) const {
  return fail(file().empty() ? Errc::usage : Errc::config, label + ": " + why);
}

std::optional<int> parse_signal(std::string_view text) {
  if (const auto number = parse_number(text)) {
    if (*number < 1 || *number > static_cast<std::uint64_t>(SIGRTMAX)) return std::nullopt;
    return static_cast<int>(*number);
  }
  auto name = upper(text);
  if (name.starts_with("SIG")) name.erase(0, 3);
  for (int number = 1; number < NSIG; ++number) {
    const char* const known = sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
  }
  return std::nullopt;
}

Result<std::size_t> choice_index(const Sourced& value, const OptionSpec& spec) {
  const auto words = choices_of(spec);
  const auto found = std::ranges::find(words, value.text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  std::string known;
  for (const auto word : words) known += (known.empty() ? "" : ", ") + std::string(word);
  return value.refuse(quote_untrusted(value.text) + " is not one of " + known);
}

Result<void> convert(const Sourced& value, const OptionSpec&, bool& into) {
  const auto parsed = parse_bool(value.text);
  if (!parsed) return value.refuse(quote_untrusted(value.text) + " is neither yes nor no; write yes or no");
  into = *parsed;
  return {};
}

Result<void> convert(const Sourced& value, const OptionSpec& spec, std::string& into) {
  if (spec.value.kind == Kind::choice) DBLOCK_CHECK(choice_index(value, spec));
  into = value.text;
  return check_bounds(value, spec.value, value.text.size());
}

Result<void> convert(const Sourced& value, const OptionSpec& spec, std::uint64_t& into) {
  if (spec.value.kind == Kind::signal) {
    const auto number = parse_signal(value.text);
    if (!number)
      return value.refuse(quote_untrusted(value.text) + " is not a signal; write for example TERM or 15");
    into = static_cast<std::uint64_t>(*number);
    return {};
  }
  const auto number = parse_number(value.text);
  if (!number) return value.refuse(quote_untrusted(value.text) + " is not a whole number");
  into = *number;
  return check_bounds(value, spec.value, *number);
}

Result<void> convert(const Sourced& value, const OptionSpec& spec, double& into) {
  const std::string& text = value.text;
  // strtod(): std::from_chars() of a double would load libm in every run. No locale interferes, because
  // dblock never calls setlocale().
  const bool plain = text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  char* stop = nullptr;
  into = std::strtod(text.c_str(), &stop);
  if (text.empty() || !plain || *stop != '\0' || !std::isfinite(into))
    return value.refuse(quote_untrusted(text) + " is not a number; write for example 1.5");
  if (into < static_cast<double>(spec.value.bounds.least))
    return value.refuse(std::string(spec.value.bounds.refusal));
  return {};
}

Result<void> convert(const Sourced& value, const OptionSpec& spec, Micros& into) {
  const auto parsed = parse_duration(value.text);
  if (!parsed) return value.refuse(parsed.error().message);
  into = *parsed;
  return check_bounds(value, spec.value, static_cast<std::uint64_t>(into.count()));
}

Result<void> convert(const Sourced& value, const OptionSpec& spec, std::optional<Micros>& into) {
  into.reset();
  if (spec.value.kind == Kind::limit && value.text == "forever") return {};
  // 0 and 1 mean no and yes for flags; here they are read as durations, and refused.
  const auto wanted =
      spec.value.kind == Kind::interval && value.text.size() > 1 ? parse_bool(value.text) : std::nullopt;
  if (wanted == false) return {};
  return convert(wanted ? Sourced{std::string(spec.default_note), value.label, value.rank} : value, spec,
                 into.emplace());
}

Values::Values(const ParsedWords& parsed, const Environment& environment)
    : parsed_(parsed), environment_(environment), scope_(scope_with(parsed.subcommand)) {
  for (const auto& option : parsed.options)
    add(Rank::flag, option.name, option.value, "--" + std::string(option.name));
  for (const auto& spec : option_specs()) {
    if ((spec.scope & scope_) == 0) continue;
    const auto name = environment_name(spec);
    if (name.empty()) continue;
    if (auto text = environment.get(name)) add(Rank::environment, spec.name, std::move(*text), name);
  }
}

void Values::add(Rank rank, std::string_view name, std::string text, std::string label) {
  entries_.push_back({name, {std::move(text), std::move(label), rank}});
}

Result<bool> Values::add_config_file(Rank rank, const std::string& path, Subcommand command, Found found) {
  DBLOCK_TRY(const auto file, read_config(path, found));
  if (!file) return false;
  if (!file->foreign.empty()) passed_over_.push_back(file->foreign);
  DBLOCK_TRY(auto lines, parse_config(file->text, path, command));
  for (auto& line : lines) add(rank, line.name, std::move(line.value), path + ": " + std::string(line.name));
  return true;
}

Result<void> Values::add_config_files(Subcommand command) {
  if (const auto chosen = find("config")) {
    DBLOCK_TRY(const bool exists, add_config_file(Rank::user_config, chosen->text, command, Found::by_name));
    if (!exists)
      return fail(Errc::config, chosen->label + ": there is no file " + chosen->text + "; check the path");
    return {};
  }
  DBLOCK_CHECK(add_config_file(Rank::system_config, environment_.system_config, command, Found::by_name));
  if (const auto path = user_config_path(environment_))
    DBLOCK_CHECK(add_config_file(Rank::user_config, *path, command, Found::by_itself));
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
  if (const auto* const spec = find_option(name, scope_); spec != nullptr && !spec->default_value.empty()) {
    best.push_back({std::string(spec->default_value), "--" + std::string(name), Rank::default_value});
  }
  return best;
}

bool Values::typed(std::string_view name) const {
  const auto value = find(name);
  return value && value->rank == Rank::flag;
}

}  // namespace dblock::cli
