#include "store/config/settings.hpp"

#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <ranges>
#include <utility>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "base/weak_spot.hpp"
#include "store/config/settings_parts.hpp"

namespace dblock::store {
namespace {

constexpr std::array<std::pair<std::string_view, TlsMode>, 5> k_tls_modes{{
    {"off", TlsMode::off},
    {"prefer", TlsMode::prefer},
    {"require", TlsMode::require},
    {"verify-ca", TlsMode::verify_ca},
    {"verify-full", TlsMode::verify_full},
}};

template <typename T>
void fill(std::optional<T>& field, const std::optional<T>& from) {
  if (!field) field = from;
}

bool names_a_place(const PartialSettings& settings) {
  return !settings.hosts.empty() || settings.socket;
}

Result<OptionGroups> read_all_option_files(const SettingsSources& sources) {
  OptionGroups groups;
  if (sources.defaults_file) {
    std::error_code ignored;
    if (!std::filesystem::exists(*sources.defaults_file, ignored))
      return fail(Errc::config,
                  "option file " + *sources.defaults_file + " of --defaults-file does not exist");
    DBLOCK_CHECK(read_option_groups(*sources.defaults_file, groups, Found::by_name));
    return groups;
  }
  DBLOCK_CHECK(read_option_groups("/etc/my.cnf", groups, Found::by_name));
  DBLOCK_CHECK(read_option_groups("/etc/mysql/my.cnf", groups, Found::by_name));
  if (!sources.home.empty())
    DBLOCK_CHECK(read_option_groups(sources.home + "/.my.cnf", groups, Found::by_itself));
  return groups;
}

// `passed_over`: where the rest may be, "; …" or nothing.
Result<void> check_complete(const PartialSettings& all, bool has_url, const std::string& passed_over) {
  if (names_a_place(all) && all.database && !all.database->empty()) return {};
  if (!has_url && !names_a_place(all) && !all.database) {
    return fail(
        Errc::config,
        "no database is configured; give --db mysql://USER@HOST/DATABASE, set DBLOCK_DB, write a line db = "
        "URL into /etc/dblock.conf, or name host and database in the group [dblock] of an option file such "
        "as /etc/mysql/my.cnf; or write --local, for locks that guard this user's jobs on this host only" +
            passed_over);
  }
  const std::string missing = names_a_place(all) ? "database" : "host";
  return fail(Errc::config, "the configuration names no " + missing +
                                "; give it in --db, DBLOCK_DB or the line db = of /etc/dblock.conf "
                                "(mysql://USER@HOST/DATABASE), or in the group [dblock] of an option file" +
                                passed_over);
}

Result<void> check_tls(const MariadbSettings& settings) {
  if (settings.tls == TlsMode::verify_ca && settings.tls_ca.empty())
    return fail(Errc::config, "tls=verify-ca needs tls-ca, the file with the certificates to trust");
  // The group [client] may name files for other programs: those that no session reads must be there, no more.
  const bool by_socket = std::ranges::all_of(
      settings.hosts, [](const HostPort& host) { return host.host == "localhost" && host.port == 0; });
  const bool without_tls = settings.tls == TlsMode::off || (settings.tls == TlsMode::prefer && by_socket);
  for (const auto* const path : {&settings.tls_ca, &settings.tls_cert, &settings.tls_key}) {
    const int needed = without_tls ? F_OK : R_OK;
    if (path->empty() || ::faccessat(AT_FDCWD, path->c_str(), needed, AT_EACCESS) == 0) continue;
    return fail(Errc::config, with_errno("the TLS file " + *path + " cannot be read", errno) +
                                  "; check tls-ca, tls-cert and tls-key");
  }
  return {};
}

Result<void> check_socket(const MariadbSettings& settings) {
  constexpr std::size_t k_longest_path = sizeof(sockaddr_un::sun_path) - 1;
  if (settings.socket.size() <= k_longest_path) return {};
  return fail(Errc::config, "the socket's path has " + std::to_string(settings.socket.size()) +
                                " bytes, and the system takes at most " + std::to_string(k_longest_path) +
                                "; name the server's socket by a shorter path, such as a symbolic link's");
}

// What servers answer to such a name differs: some call it impossible, some deny the right to it.
Result<void> check_database(const MariadbSettings& settings) {
  if (!has_control(settings.database)) return {};
  return fail(Errc::config, "the database's name " + quote_untrusted(settings.database) +
                                " has a control character, such as the end of a line, in it; take that away");
}

// The TLS mode. Without a mode, a certificate authority in the settings means that the user wants
// certificates checked: dblock must not ignore it silently.
TlsMode mode_of(const PartialSettings& all) {
  if (all.tls) return *all.tls;
  return all.tls_ca ? TlsMode::verify_ca : TlsMode::prefer;
}

// The file of --local. Ignores relative directories, as the XDG specification demands: the lock would depend
// on the directory in which the job was started.
Result<SqliteSettings> local_store(const SettingsSources& sources) {
  if (sources.root) return SqliteSettings{"/var/lib/dblock/locks.db", true};
  const auto below = [](std::string_view variable, const std::string& path) {
    if (owner_of_folder(path) == ::geteuid()) return SqliteSettings{path, true, {}};
    return SqliteSettings{path, true,
                          "; " + std::string(variable) +
                              " names another user's directory, so run dblock with that of its own user"};
  };
  if (sources.state_home.starts_with('/'))
    return below("XDG_STATE_HOME", sources.state_home + "/dblock/locks.db");
  if (sources.home.starts_with('/')) return below("HOME", sources.home + "/.local/state/dblock/locks.db");
  return fail(Errc::config,
              "--local keeps its file under XDG_STATE_HOME or HOME, and neither is set to an absolute path; "
              "name a file with --db sqlite:PATH");
}

Result<ResolvedSettings> embedded(Result<SqliteSettings> settings) {
  if (!settings) return std::unexpected(std::move(settings.error()));
  return ResolvedSettings{std::move(*settings), {}, {}};
}

MariadbSettings completed(const PartialSettings& all) {
  MariadbSettings settings;
  settings.hosts = all.hosts;
  const bool local = all.hosts.empty() || all.hosts == std::vector{HostPort{"localhost", 0}};
  if (all.socket && local) {
    settings.socket = absolute_path(*all.socket);
    settings.hosts.clear();
  }
  settings.database = all.database.value_or("");
  settings.user = all.user.value_or("");
  settings.tls = mode_of(all);
  settings.tls_ca = absolute_path(all.tls_ca.value_or(""));
  settings.tls_cert = absolute_path(all.tls_cert.value_or(""));
  settings.tls_key = absolute_path(all.tls_key.value_or(""));
  if (all.connect_timeout) settings.connect_timeout = *all.connect_timeout;
  settings.min_replicas = all.min_replicas.value_or(0);
  settings.connection = all.connection.value_or(HolderSession::automatic);
  return settings;
}

}  // namespace

std::string HostPort::display() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  std::string text = is_ipv6 ? "[" + host + "]" : host;
  if (port != 0) text += ":" + std::to_string(port);
  return text;
}

std::string MariadbSettings::display() const {
  std::string text = "mysql://";
  if (!user.empty()) text += user + "@";
  for (std::size_t i = 0; i < hosts.size(); ++i) text += (i > 0 ? "," : "") + hosts[i].display();
  if (hosts.empty()) text += "localhost";
  text += "/" + database;
  if (!socket.empty()) text += " (socket " + socket + ")";
  return text;
}

std::optional<TlsMode> parse_tls_mode(std::string_view text) {
  const auto* const mode = std::ranges::find(k_tls_modes, text, &decltype(k_tls_modes)::value_type::first);
  if (mode == k_tls_modes.end()) return std::nullopt;
  return mode->second;
}

bool is_host(std::string_view text) {
  constexpr std::size_t k_longest = 253;
  constexpr std::ptrdiff_t k_longest_label = 63;
  return !text.empty() && text.size() <= k_longest && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':' || c == '%';
  }) && std::ranges::all_of(std::views::split(text, '.'), [](const auto& label) {
    return std::ranges::distance(label) <= k_longest_label;
  });
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), port);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

Result<std::chrono::milliseconds> parse_connect_timeout(std::string_view name, std::string_view text) {
  using std::chrono::milliseconds;
  auto length = parse_duration(text);
  if (!length) {
    // Other text may be the rest of a password that contains a '?', or of a line that was written wrongly.
    const bool may_be_shown = text.find_first_not_of("0123456789.dhmsu") == std::string_view::npos;
    return fail(Errc::config,
                std::string(name) + (may_be_shown ? ": " + length.error().message
                                                  : " is not a duration; write for example 30s or 1h30m"));
  }
  const auto rounded = std::chrono::ceil<milliseconds>(*length);
  if (rounded <= milliseconds{0} || rounded > std::chrono::hours{1})
    return fail(Errc::config, std::string(name) + " must be more than 0 and at most 1h");
  return rounded;
}

PartialSettings laid_over(PartialSettings over, const PartialSettings& under) {
  if (!names_a_place(over)) {
    over.hosts = under.hosts;
    over.socket = under.socket;
  }
  fill(over.database, under.database);
  fill(over.user, under.user);
  if (!over.password) over.password_from = under.password_from;
  fill(over.password, under.password);
  fill(over.tls, under.tls);
  fill(over.tls_ca, under.tls_ca);
  fill(over.tls_cert, under.tls_cert);
  fill(over.tls_key, under.tls_key);
  fill(over.connect_timeout, under.connect_timeout);
  fill(over.password_file, under.password_file);
  fill(over.password_command, under.password_command);
  fill(over.min_replicas, under.min_replicas);
  fill(over.connection, under.connection);
  return over;
}

PartialSettings OptionGroups::dblock_settings() const {
  PartialSettings settings = dblock;
  for (auto& host : settings.hosts) host.port = dblock_port;
  return settings;
}

std::string absolute_path(const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

std::string display(const Settings& settings) {
  return std::visit([](const auto& one) { return one.display(); }, settings);
}

Result<ResolvedSettings> resolve_settings(const SettingsSources& sources) {
  if (sources.local) return embedded(local_store(sources));
  if (sources.url && is_sqlite_url(*sources.url)) return embedded(parse_sqlite_url(*sources.url));
  DBLOCK_TRY(auto groups, read_all_option_files(sources));
  std::string passed_over;
  groups.passed_over.insert(groups.passed_over.begin(), sources.passed_over.begin(),
                            sources.passed_over.end());
  for (const auto& sentence : groups.passed_over) {
    passed_over += "; " + sentence;
    groups.remarks.push_back(sentence);
  }
  const PartialSettings files = laid_over(groups.dblock_settings(), groups.client);
  PartialSettings url;
  if (sources.url) {
    DBLOCK_TRY(url, parse_url(*sources.url));
    if (url.password_command)
      url.password_command->from = "password-command in the URL of " + sources.named_by;
  }
  const PartialSettings all = laid_over(url, files);
  DBLOCK_CHECK(check_complete(all, sources.url.has_value(), passed_over));
  MariadbSettings settings = completed(all);
  settings.passed_over = std::move(passed_over);
  DBLOCK_CHECK(check_tls(settings));
  DBLOCK_CHECK(check_socket(settings));
  DBLOCK_CHECK(check_database(settings));
  std::vector<std::string> warnings = groups.warnings;
  if (url.password && sources.url_from_command_line) {
    warnings.emplace_back(
        "the password in --db can be seen by every user of this host; use an option file or password-file");
  }
  if (url.password_command && sources.url_from_command_line) {
    warnings.emplace_back(
        "the password-command in --db, and what it names, can be seen by every user of this host; put it "
        "into an option file or a configuration file");
  }
  DBLOCK_CHECK(find_password(sources, url, files, settings, warnings));
  return ResolvedSettings{std::move(settings), std::move(warnings), groups.remarks};
}

}  // namespace dblock::store
