// Where the locks are kept and how to get there: the URL, --local, MariaDB option files and the environment
// made into one value (DESIGN section 2, "What counts as configured").
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.hpp"

namespace dblock::store {

enum class TlsMode { off, prefer, require, verify_ca, verify_full };

struct HostPort {
  std::string host;        // without brackets for IPv6
  std::uint16_t port = 0;  // 0: not given (3306)
  auto operator<=>(const HostPort&) const = default;

  [[nodiscard]] std::string display() const;  // as in a URL
};

// What one source says; everything optional so that sources can be laid over each other field by field.
struct PartialSettings {
  std::vector<HostPort> hosts;
  std::optional<std::string> socket;
  std::optional<std::string> database;
  std::optional<std::string> user;
  std::optional<std::string> password;
  std::string password_from;  // "option file /etc/my.cnf line 3", where it is one's
  std::optional<TlsMode> tls;
  std::optional<std::string> tls_ca, tls_cert, tls_key;
  std::optional<std::chrono::milliseconds> connect_timeout;
  std::optional<std::string> password_file;
  std::optional<unsigned> min_replicas;
};

// Complete settings of one MariaDB or MySQL database. `password` is never printed.
struct MariadbSettings {
  std::vector<HostPort> hosts;  // tried in order; empty when `socket` is set
  std::string socket;
  std::string database;
  std::string user;  // empty: the effective user's name
  std::optional<std::string> password;
  std::string password_from;  // "DBLOCK_PASSWORD_FILE (/run/pw)": what a person has to mend; empty: none
  TlsMode tls = TlsMode::prefer;
  std::string tls_ca, tls_cert, tls_key;            // absolute paths: the guardian's working directory is /
  std::chrono::milliseconds connect_timeout{5000};  // per host
  unsigned min_replicas = 0;  // grant nothing while fewer semi-synchronous replicas acknowledge

  // "mysql://user@host:3306/db" or "…/db (socket /x)": for messages; no password.
  [[nodiscard]] std::string display() const;
};

// The embedded store: one file that guards this host only.
struct SqliteSettings {
  std::string path;              // absolute: the guardian's working directory is /
  bool makes_directory = false;  // --local's own place; a typed path may be a slip

  // "sqlite:/var/lib/dblock/locks.db".
  [[nodiscard]] std::string display() const { return "sqlite:" + path; }
};

using Settings = std::variant<MariadbSettings, SqliteSettings>;
[[nodiscard]] std::string display(const Settings& settings);

// mysql:// or mariadb://[USER[:PASS]@]HOST[:PORT][,HOST2[:PORT2]…]/DATABASE[?param=…], percent-decoded.
// Errc::config, with the faulty part named but never the password. The whole authority and path may be empty
// where an option file supplies them (mysql:///db).
[[nodiscard]] Result<PartialSettings> parse_url(std::string_view url);

[[nodiscard]] bool is_sqlite_url(std::string_view url);

// sqlite:PATH, also written sqlite:///PATH. PATH is taken as it is, without decoding or parameters; a
// relative one is made absolute. Errc::config for what names no file or another host.
[[nodiscard]] Result<SqliteSettings> parse_sqlite_url(std::string_view url);

// A MariaDB option file: [group], name=value, name, quotes, # and ; comments, !include, !includedir; '-' and
// '_' are the same in names. Only groups dblock, client, client-server, client-mariadb are kept; host, port,
// socket and database only from [dblock]. A missing file yields empty settings; an unreadable one
// Errc::config.
[[nodiscard]] Result<PartialSettings> read_option_file(const std::string& path);

struct SettingsSources {
  std::optional<std::string> url;      // --db, DBLOCK_DB or `db` in a configuration file, whichever won
  bool url_from_command_line = false;  // its password deserves a warning
  std::string said_by;                 // "--db", "DBLOCK_DB", "--local"; empty: nothing but option files
  std::string url_file;                // the configuration file that holds `url`, where one does
  bool local = false;                  // --local or DBLOCK_LOCAL, and nothing that outranks it
  bool root = false;                   // --local means the system's file, not the user's
  std::optional<std::string> defaults_file;  // --defaults-file: must exist; replaces the usual files
  std::optional<std::string> password_file;  // DBLOCK_PASSWORD_FILE
  std::string home;                          // for ~/.my.cnf and --local; empty: none
  std::string state_home;                    // XDG_STATE_HOME, for --local; empty or relative: ~/.local/state
};

struct ResolvedSettings {
  Settings settings;
  std::vector<std::string> warnings;  // to be shown once
  std::vector<std::string> remarks;   // too common to be told at each run; for doctor
};

// SqliteSettings for `local` or a sqlite: URL, and nothing else is read then. Otherwise URL parts win over
// the option files field by field; the usual files are /etc/my.cnf, /etc/mysql/my.cnf and ~/.my.cnf, later
// ones winning. Nothing configured: Errc::config naming DBLOCK_DB, the option file, --db and --local.
// Password precedence: URL, password-file parameter, DBLOCK_PASSWORD_FILE, option file.
[[nodiscard]] Result<ResolvedSettings> resolve_settings(const SettingsSources& sources);

}  // namespace dblock::store
