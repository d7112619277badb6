// MariaDB option files, read as the server's own programs read them, as far as dblock's settings go.
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/small_file.hpp"
#include "base/text.hpp"
#include "store/config/settings_parts.hpp"

namespace dblock::store {
namespace {

constexpr int k_deepest_include = 10;
constexpr std::string_view k_password = "password";

enum class Group { dblock, client, other };

// Removes a comment: it starts at any '#' outside of quotes.
std::string_view without_comment(std::string_view line) {
  char quote = '\0';
  bool escaped = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '\0' && c == '#') return line.substr(0, i);
    if ((c == '\'' || c == '"') && !escaped) {
      if (quote == '\0') {
        quote = c;
      } else if (quote == c) {
        quote = '\0';
      }
    }
    escaped = quote != '\0' && c == '\\' && !escaped;
  }
  return line;
}

std::string unescaped(std::string_view text) {
  std::string value;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      value += text[i];
      continue;
    }
    constexpr std::string_view k_letters = "ntrbs\\\"'";
    constexpr std::string_view k_meanings = "\n\t\r\b \\\"'";
    const auto which = k_letters.find(text[++i]);
    if (which == std::string_view::npos) value += '\\';
    value += which == std::string_view::npos ? text[i] : k_meanings[which];
  }
  return value;
}

std::string value_of(std::string_view text) {
  text = trimmed(text);
  const bool quoted =
      text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front();
  return unescaped(quoted ? text.substr(1, text.size() - 2) : text);
}

struct Option {
  std::string name;  // with '-' for '_'
  std::string value;
};

Option option_of(std::string_view line) {
  const auto equals = line.find('=');
  Option option{std::string(trimmed(line.substr(0, equals))),
                equals == std::string_view::npos ? std::string() : value_of(line.substr(equals + 1))};
  std::ranges::replace(option.name, '_', '-');
  if (option.name.starts_with("loose-")) option.name.erase(0, 6);
  return option;
}

bool is_false(std::string_view value) {
  return value == "0" || value == "off" || value == "OFF" || value == "false" || value == "FALSE";
}

// Adds one of MariaDB's TLS switches to the mode. A later `ssl` does not weaken verification.
void take_tls_switch(const Option& option, PartialSettings& out) {
  const bool on = !is_false(option.value);
  const TlsMode now = out.tls.value_or(TlsMode::prefer);
  if (option.name == "ssl") {
    out.tls = on ? std::max(now, TlsMode::require) : TlsMode::off;
  } else if (option.name == "skip-ssl" || option.name == "disable-ssl") {
    out.tls = TlsMode::off;
  } else if (option.name == "ssl-verify-server-cert") {
    if (on) out.tls = TlsMode::verify_full;
    if (!on && now == TlsMode::verify_full) out.tls = TlsMode::require;
  }
}

class Reader {
 public:
  Reader(OptionGroups& groups, Found found) : groups_(groups), found_(found) {}

  Result<void> read(const std::string& path, int depth) {
    DBLOCK_TRY(const auto file, read_small_file(path, "option file", found_));
    if (!file) return {};
    if (!file->foreign.empty()) {
      if (depth > 0) return fail(Errc::config, file->foreign);
      groups_.passed_over.push_back(file->foreign);
      return {};
    }
    // Ignores an option file that everybody may write, as mysql(1) and the server do.
    if (S_ISREG(file->mode) && (file->mode & S_IWOTH) != 0) {
      groups_.warnings.push_back("option file " + path +
                                 " is ignored because everybody may write it; chmod o-w it");
      return {};
    }
    const bool is_exposed = others_may_read(*file);
    Group group = Group::other;
    std::string_view rest = file->text;
    for (int number = 1; !rest.empty(); ++number) {
      const std::string_view line = trimmed(rest.substr(0, rest.find('\n')));
      rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
      if (!says_something(line, group)) continue;
      const std::string where = path + " line " + std::to_string(number);
      const bool includes = line.front() == '!';
      const OptionGroups before = groups_;
      if (!includes) DBLOCK_CHECK(take_line(line, where, group));
      if (includes || groups_.has_other_settings(before)) {
        const bool command = group == Group::dblock && names(line, "password-command");
        DBLOCK_CHECK(
            require_trusted(*file, command ? Decides::commands : Decides::settings, "option file " + where));
      }
      if (includes) DBLOCK_CHECK(take_include(line, where, depth));
      if (is_exposed && names(line, k_password))
        groups_.remarks.push_back("others may read the password in option file " + path + "; chmod 600 it");
    }
    return {};
  }

 private:
  static bool names(std::string_view line, std::string_view option) {
    return line.front() != '[' && line.front() != '!' && option_of(without_comment(line)).name == option;
  }

  // True if the line matters: no comment, and no option in a group that dblock does not read.
  static bool says_something(std::string_view line, Group group) {
    if (line.empty() || line.front() == '#' || line.front() == ';') return false;
    return group != Group::other || line.front() == '!' || line.front() == '[';
  }

  Result<void> take_line(std::string_view line, const std::string& where, Group& group) {
    if (line.front() == '[') {
      const auto end = line.find(']');
      if (end == std::string_view::npos)
        return fail(Errc::config, "option file " + where + ": a [ is not closed; write [group]");
      group = group_of(trimmed(line.substr(1, end - 1)));
      return {};
    }
    const Option option = option_of(without_comment(line));
    if (group == Group::dblock) return take_dblock(option, where);
    return take_client(option, where, groups_.client);
  }

  static Group group_of(std::string_view name) {
    if (name == "dblock") return Group::dblock;
    if (name == "client" || name == "client-server" || name == "client-mariadb") return Group::client;
    return Group::other;
  }

  Result<void> take_include(std::string_view line, const std::string& where, int depth) {
    constexpr std::string_view k_directory = "!includedir";
    constexpr std::string_view k_file = "!include";
    if (depth == k_deepest_include)
      return fail(Errc::config,
                  "option file " + where + ": includes nest too deep; does a file include itself?");
    if (line.starts_with(k_directory)) {
      for (const auto& path : files_in(std::string(trimmed(line.substr(k_directory.size())))))
        DBLOCK_CHECK(read(path, depth + 1));
      return {};
    }
    if (line.starts_with(k_file)) return read(std::string(trimmed(line.substr(k_file.size()))), depth + 1);
    return {};
  }

  static std::vector<std::string> files_in(const std::string& directory) {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
      if (entry.path().extension() == ".cnf") paths.push_back(entry.path().string());
    }
    std::ranges::sort(paths);
    return paths;
  }

  // Only [dblock] may say where the database is. The distribution's stock file names the local socket in
  // [client]; if that counted, each host would keep locks of its own.
  Result<void> take_dblock(const Option& option, const std::string& where) {
    PartialSettings& out = groups_.dblock;
    if (option.name == "host") return take_hosts(option.value, where);
    if (option.name == "port") return take_port(option.value, where);
    if (option.name == "socket") out.socket = option.value;
    if (option.name == "database") out.database = option.value;
    if (option.name == "password-file") out.password_file = option.value;
    if (option.name == "password-command")
      out.password_command = {option.value, "password-command in option file " + where};
    if (option.name == "tls") {
      out.tls = parse_tls_mode(option.value);
      if (!out.tls)
        return fail(Errc::config,
                    "option file " + where + ": tls must be off, prefer, require, verify-ca or verify-full");
    }
    if (option.name == "connect-timeout") {
      DBLOCK_TRY(out.connect_timeout,
                 parse_connect_timeout("option file " + where + ": connect-timeout", option.value));
    }
    return take_client(option, where, out);
  }

  Result<void> take_hosts(const std::string& value, const std::string& where) {
    groups_.dblock.hosts.clear();
    for (std::size_t start = 0; start <= value.size();) {
      const auto end = std::min(value.find(',', start), value.size());
      const std::string host(trimmed(std::string_view(value).substr(start, end - start)));
      if (!is_host(host))
        return fail(Errc::config, "option file " + where + ": \"host\" is empty or impossible");
      groups_.dblock.hosts.push_back({host, 0});
      start = end + 1;
    }
    return {};
  }

  Result<void> take_port(const std::string& value, const std::string& where) {
    const auto port = parse_port(value);
    if (!port)
      return fail(Errc::config, "option file " + where + ": \"port\" must be a number from 1 to 65535");
    groups_.dblock_port = *port;
    return {};
  }

  static Result<void> take_client(const Option& option, const std::string& where, PartialSettings& out) {
    if (option.name == "user") out.user = option.value;
    if (option.name == k_password) {
      out.password = option.value;
      out.password_from = "option file " + where;
    }
    if (option.name == "ssl-ca" || option.name == "tls-ca") out.tls_ca = option.value;
    if (option.name == "ssl-cert" || option.name == "tls-cert") out.tls_cert = option.value;
    if (option.name == "ssl-key" || option.name == "tls-key") out.tls_key = option.value;
    if (option.name == "ssl-mode") {
      out.tls = parse_tls_mode(tls_mode_meant(option.value));
      if (!out.tls)
        return fail(Errc::config,
                    "option file " + where +
                        ": unknown value for ssl-mode; write for example REQUIRED or VERIFY_IDENTITY");
    }
    take_tls_switch(option, out);
    return {};
  }

  OptionGroups& groups_;
  const Found found_;  // the first file, and so what it includes
};

}  // namespace

Result<void> read_option_groups(const std::string& path, OptionGroups& groups, Found found) {
  return Reader(groups, found).read(path, 0);
}

Result<PartialSettings> read_option_file(const std::string& path) {
  OptionGroups groups;
  DBLOCK_CHECK(read_option_groups(path, groups, Found::by_name));
  return laid_over(groups.dblock_settings(), groups.client);
}

}  // namespace dblock::store
