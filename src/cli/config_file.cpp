#include "cli/config_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/split.hpp"

namespace dblock::cli {
namespace {

constexpr Scope k_main = scope_of(Subcommand::run) | scope_of(Subcommand::acquire);
constexpr Scope k_any = ~Scope{0};
constexpr std::size_t k_max_bytes = 1U << 20U;  // a device or a log file named by mistake ends here

std::string_view trim(std::string_view text) {
  constexpr std::string_view k_blank = " \t\r\f\v";
  const auto first = text.find_first_not_of(k_blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(k_blank) - first + 1);
}

class ConfigParser {
 public:
  ConfigParser(const std::string& path, Subcommand command) : path_(path), wanted_(scope_of(command)) {}

  Result<void> take(std::string_view line) {
    ++number_;
    line = trim(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') return {};
    if (line[0] == '[') return take_section(line);
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) {
      return refuse(quote_untrusted(line) +
                    " is not of the form option = value; write it so, or # before it");
    }
    return take_option(trim(line.substr(0, equals)), trim(line.substr(equals + 1)));
  }

  std::vector<ConfigValue> values() && { return std::move(values_); }

 private:
  Result<void> take_section(std::string_view line) {
    if (!line.ends_with(']')) return refuse("a section is written [run]");
    const auto name = trim(line.substr(1, line.size() - 2));
    const auto command = find_subcommand(name);
    if (!command) return refuse("unknown section [" + escape_untrusted(name) + "]; sections are subcommands");
    section_ = command;
    return {};
  }

  Result<void> take_option(std::string_view name, std::string_view value) {
    const auto* const spec = find_spec(name);
    if (spec == nullptr || !allowed_in_config(*spec)) {
      const Scope scope = section_ ? scope_of(*section_) | k_global : k_any;
      return refuse("unknown option " + quote_untrusted(name) + suggest_option(name, scope));
    }
    if (applies(*spec)) values_.push_back({spec->name, std::string(value)});
    return {};
  }

  [[nodiscard]] const OptionSpec* find_spec(std::string_view name) const {
    if (section_) return find_option(name, scope_of(*section_) | k_global);
    for (const Scope scope : {k_global | k_main, k_any}) {
      if (const auto* const spec = find_option(name, scope)) return spec;
    }
    return nullptr;
  }

  // A `wait` for run and acquire must not turn up in `release`, so names are looked up by scope, not alone.
  [[nodiscard]] bool applies(const OptionSpec& spec) const {
    if (section_) return scope_of(*section_) == wanted_;
    if ((spec.scope & k_global) != 0) return true;
    const bool main_option = find_option(spec.name, k_main) != nullptr;
    return find_option(spec.name, wanted_ & (main_option ? k_main : k_any)) != nullptr;
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
  while (!text.empty()) {
    const auto end = text.find('\n');
    DBLOCK_CHECK(parser.take(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::move(parser).values();
}

Result<std::optional<std::string>> read_config(const std::string& path) {
  // O_NONBLOCK: a FIFO without a writer must not hang the program.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return fail(Errc::config, with_errno("cannot open " + path, errno) + "; let its user read it",
                static_cast<unsigned>(errno));
  }
  // Reading may wait, for `--config <(make-config)`; that needs a writer, which opening did not wait for.
  ::fcntl(fd.get(), F_SETFL, 0);
  std::string text;
  std::array<char, 4096> block{};
  for (;;) {
    const auto n = ::read(fd.get(), block.data(), block.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail(Errc::config, with_errno("cannot read " + path, errno) + "; name a file of text",
                  static_cast<unsigned>(errno));
    }
    if (n == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(n));
    if (text.size() > k_max_bytes)
      return fail(Errc::config, path + " is too large for a configuration file; is it the right one?");
  }
}

}  // namespace dblock::cli
