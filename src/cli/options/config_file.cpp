#include "cli/options/config_file.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "cli/options/parse.hpp"
#include "store/config/settings.hpp"

namespace dblock::cli {
namespace {

constexpr std::array k_entries{k_password_command, k_password_file};  // which are no options
constexpr Scope k_run_and_acquire = scope_of(Subcommand::run) | scope_of(Subcommand::acquire);

// Removes quotes around a whole value. `"page me" "$DBLOCK_MESSAGE"` keeps its quotes: no pair encloses all.
std::string_view unquoted(std::string_view value) {
  if (value.size() < 2 || (value.front() != '"' && value.front() != '\'')) return value;
  return value.find(value.front(), 1) == value.size() - 1 ? value.substr(1, value.size() - 2) : value;
}

// A name that is not known, for a message; empty if it cannot be one. A file that was named by mistake may
// hold secrets, which belong in no log.
std::string shown(std::string_view name) {
  constexpr std::size_t k_longest_name = 40;
  const bool is_name = name.size() <= k_longest_name && std::ranges::all_of(name, [](char c) {
                         return (c >= 'a' && c <= 'z') || c == '-' || c == '_';
                       });
  return is_name ? " " + quote_untrusted(name) : "";
}

// What may be meant by a name as a shell, a command line or another program has it: `export DBLOCK_WAIT`,
// `--wait`, `password_file`, `Wait`.
std::string as_option(std::string_view name) {
  std::string option = lower_case(name);
  for (const std::string_view before : {"export ", "dblock_", "--"}) {
    if (option.starts_with(before)) option.erase(0, before.size());
  }
  std::ranges::replace(option, '_', '-');
  return option;
}

// A URL without secrets, for a message; else empty.
std::string shown_url(std::string_view url) {
  const auto parsed = store::parse_url(url);
  const bool secret = !parsed || parsed->password || parsed->password_command;
  return secret && !store::is_sqlite_url(url) ? "" : " " + quote_untrusted(url);
}

class ConfigParser {
 public:
  ConfigParser(const std::string& path, Subcommand command) : path_(path), wanted_(scope_of(command)) {}

  Result<void> take(std::string_view line) {
    ++number_;
    line = trimmed(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') return {};
    if (line[0] == '[') return take_section(line);
    const auto equals = line.find('=');
    if (equals == std::string_view::npos)
      return refuse("the line is not of the form option = value; write it so, or # before it");
    return take_option(trimmed(line.substr(0, equals)), unquoted(trimmed(line.substr(equals + 1))));
  }

  std::vector<ConfigValue> values() && { return std::move(values_); }

 private:
  Result<void> take_section(std::string_view line) {
    if (!line.ends_with(']')) return refuse("a section is written [run]");
    const auto name = trimmed(line.substr(1, line.size() - 2));
    const auto command = find_subcommand(name);
    if (const auto lower = lower_case(name); !command && find_subcommand(lower))
      return refuse("unknown section " + quote_untrusted(name) + "; write [" + lower + "]");
    if (!command)
      return refuse("unknown section" + shown(name) + "; sections are subcommands, such as [run]");
    section_ = command;
    return {};
  }

  Result<void> take_option(std::string_view name, std::string_view value) {
    const auto* const entry = std::ranges::find(k_entries, name);
    if (entry != k_entries.end()) {
      if (!section_ || scope_of(*section_) == wanted_) values_.push_back({*entry, std::string(value)});
      return {};
    }
    const auto* const spec = find_spec(name);
    if (!is_allowed(spec)) return refuse_unknown(name);
    DBLOCK_CHECK(check_store(name, value));
    if (applies(*spec)) values_.push_back({spec->name, std::string(value)});
    return {};
  }

  [[nodiscard]] std::unexpected<Error> refuse_unknown(std::string_view name) const {
    const std::string option = as_option(name);
    const bool is_entry = std::ranges::find(k_entries, option) != k_entries.end();
    if (option != name && (is_entry || is_allowed(find_spec(option))))
      return refuse("unknown option " + quote_untrusted(name) + "; write " + option);
    if (option == "password") {
      return refuse("unknown option " + quote_untrusted(name) +
                    "; write the password into a file of its own, and here password-file = FILE");
    }
    const Scope scope = section_ ? scope_of(*section_) | k_global : k_any;
    return refuse("unknown option" + shown(name) + suggest_option(name, scope));
  }

  static bool is_allowed(const OptionSpec* spec) { return spec != nullptr && allowed_in_config(*spec); }

  // Refuses a store that only one subcommand would use, and a URL of which a comment would be a part.
  [[nodiscard]] Result<void> check_store(std::string_view name, std::string_view value) const {
    if (section_ && (name == "db" || name == "local" || name == "defaults-file")) {
      return refuse(std::string(name) + " stands below [" + std::string(spec_of(*section_).name) +
                    "], for that subcommand alone, but is global: all subcommands must mean the same locks. "
                    "Write it above the first section");
    }
    if (name == "db" && value.empty())
      return refuse("db = names no database; write db = mysql://USER@HOST/DATABASE, or # before it");
    const auto* const comment = std::ranges::adjacent_find(
        value, [](char a, char b) { return (a == ' ' || a == '\t') && (b == '#' || b == ';'); });
    if (name != "db" || comment == value.end()) return {};
    return refuse(
        "db =" + shown_url(unquoted(trimmed(std::string_view(value.begin(), comment)))) +
        " is followed by a comment, which would be a part of the URL; give the comment a line of its "
        "own");
  }

  [[nodiscard]] const OptionSpec* find_spec(std::string_view name) const {
    if (section_) return find_option(name, scope_of(*section_) | k_global);
    for (const Scope scope : {k_global | k_run_and_acquire, k_any}) {
      if (const auto* const spec = find_option(name, scope)) return spec;
    }
    return nullptr;
  }

  // True if the line applies to the wanted subcommand. Outside sections, `wait` means the option of run and
  // acquire and must not reach `release`, which has another --wait; so the scope counts, not the name alone.
  [[nodiscard]] bool applies(const OptionSpec& spec) const {
    if (section_) return scope_of(*section_) == wanted_;
    if ((spec.scope & k_global) != 0) return true;
    const bool main_option = find_option(spec.name, k_run_and_acquire) != nullptr;
    return find_option(spec.name, wanted_ & (main_option ? k_run_and_acquire : k_any)) != nullptr;
  }

  std::unexpected<Error> refuse(const std::string& why) const {
    return fail(Errc::config, path_ + ":" + std::to_string(number_) + ": " + why);
  }

  const std::string& path_;
  Scope wanted_;
  unsigned number_ = 0;
  std::optional<Subcommand> section_;
  std::vector<ConfigValue> values_;
};

}  // namespace

Result<std::vector<ConfigValue>> parse_config(std::string_view text, const std::string& path,
                                              Subcommand command) {
  ConfigParser parser(path, command);
  if (constexpr std::string_view k_mark = "\xef\xbb\xbf"; text.starts_with(k_mark))
    text.remove_prefix(k_mark.size());  // the byte order mark of some editors
  while (!text.empty()) {
    const auto end = text.find('\n');
    DBLOCK_CHECK(parser.take(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::move(parser).values();
}

Result<std::optional<SmallFile>> read_config(const std::string& path, Found found) {
  DBLOCK_TRY(auto file, read_small_file(path, "configuration file", found));
  if (!file || !file->foreign.empty()) return file;
  // A hook is a command: dblock must not run commands that other users can write.
  DBLOCK_CHECK(require_trusted(*file, Decides::commands, "configuration file " + path));
  return file;
}

}  // namespace dblock::cli
