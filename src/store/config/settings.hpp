// Where the locks are kept and how to reach them. Makes one Settings value out of the URL, --local, MariaDB
// option files and the environment, as dblock(1) says.
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

// What the holder of a lock does with its session until the next renewal: keeps it, ends it, or ends it where
// sessions are scarce or something ends them while they are idle.
enum class HolderSession { automatic, keep, brief };

struct HostPort {
  std::string host;        // without brackets for IPv6
  std::uint16_t port = 0;  // 0: not given, which means 3306
  auto operator<=>(const HostPort&) const = default;

  [[nodiscard]] std::string display() const;  // as in a URL
};

// A command that prints the password. `from` names it in messages: "password-command in /etc/dblock.conf".
struct PasswordCommand {
  std::string command;
  std::string from;
  std::string directory{};  // where it runs; empty: where dblock is
  bool operator==(const PasswordCommand&) const = default;
};

// The settings of one source. Every field may be missing: laid_over() merges sources field by field.
struct PartialSettings {
  std::vector<HostPort> hosts;
  std::optional<std::string> socket;
  std::optional<std::string> database;
  std::optional<std::string> user;
  std::optional<std::string> password;
  std::string password_from;  // "option file /etc/my.cnf line 3" if an option file holds the password
  std::optional<TlsMode> tls;
  std::optional<std::string> tls_ca, tls_cert, tls_key;
  std::optional<std::chrono::milliseconds> connect_timeout;
  std::optional<std::string> password_file;
  std::optional<PasswordCommand> password_command;
  std::optional<unsigned> min_replicas;
  std::optional<HolderSession> connection;
  bool operator==(const PartialSettings&) const = default;
};

// A password that may change while dblock runs, or was not to be had at its start: where to ask for it.
struct PasswordSource {
  std::string file;                        // absolute: the guardian's working directory is /
  std::optional<PasswordCommand> command;  // else the file is read
  std::optional<Error> failure;            // why the first try to ask gave no password, until that is told

  [[nodiscard]] bool can_be_asked() const { return command || !file.empty(); }
};

// Complete settings of one MariaDB or MySQL database. `password` is never printed.
struct MariadbSettings {
  std::vector<HostPort> hosts;  // tried in order; empty when `socket` is set
  std::string socket;
  std::string database;
  std::string user;  // empty: the effective user's name
  std::optional<std::string> password;
  std::string password_from;  // where the password is from: "DBLOCK_PASSWORD_FILE (/run/pw)"; empty: none
  std::string passed_over;    // files of another user's home that were not read, for messages; usually empty
  PasswordSource password_source;
  TlsMode tls = TlsMode::prefer;
  std::string tls_ca, tls_cert, tls_key;            // absolute paths: the guardian's working directory is /
  std::chrono::milliseconds connect_timeout{5000};  // per host
  unsigned min_replicas = 0;  // grant nothing while fewer semi-synchronous replicas acknowledge
  HolderSession connection = HolderSession::automatic;

  // "mysql://user@host:3306/db" or "…/db (socket /x)": for messages; no password.
  [[nodiscard]] std::string display() const;
};

// The embedded store: one file, whose locks guard the jobs of one user on one host.
struct SqliteSettings {
  std::string path;              // absolute: the guardian's working directory is /
  bool makes_directory = false;  // true for --local; not for a typed path, which may be mistyped
  std::string home_advice{};     // what to say where the file cannot be had; for --local in a strange home

  // "sqlite:/var/lib/dblock/locks.db".
  [[nodiscard]] std::string display() const { return "sqlite:" + path; }
};

using Settings = std::variant<MariadbSettings, SqliteSettings>;
[[nodiscard]] std::string display(const Settings& settings);

// mysql:// or mariadb://[USER[:PASS]@]HOST[:PORT][,HOST2[:PORT2]…]/DATABASE[?param=…], percent-decoded.
// Errc::config names the faulty part, but never the password. Host and database may be missing (mysql:///db):
// an option file can supply them. White space around the URL is no part of it.
[[nodiscard]] Result<PartialSettings> parse_url(std::string_view url);

[[nodiscard]] bool is_sqlite_url(std::string_view url);

// sqlite:PATH, also written sqlite:///PATH. PATH is taken literally, without decoding or parameters; a
// relative path is made absolute; white space around the URL is no part of it. Errc::config if PATH names no
// file, or the URL names a host.
[[nodiscard]] Result<SqliteSettings> parse_sqlite_url(std::string_view url);

// Reads a MariaDB option file: [group], name=value, name, quotes, # and ; comments, !include, !includedir;
// '-' and '_' are the same in names. Keeps only the groups dblock, client, client-server and client-mariadb;
// host, port, socket and database only from [dblock]. A missing file yields empty settings. Errc::config if
// the file cannot be read or is faulty.
[[nodiscard]] Result<PartialSettings> read_option_file(const std::string& path);

struct SettingsSources {
  std::optional<std::string> url;      // --db, DBLOCK_DB or `db` in a configuration file, whichever won
  bool url_from_command_line = false;  // true: a password in `url` deserves a warning, `ps` may show it
  std::string named_by;  // what names the database: "--db", "DBLOCK_DB", "--local"; empty: option files only
  std::string url_file;  // the configuration file that holds `url`; empty if none does
  bool local = false;    // --local or DBLOCK_LOCAL, not overridden by a higher rank
  bool root = false;     // the user is root: --local means the system's file, not the user's
  std::optional<std::string> defaults_file;           // --defaults-file: must exist; replaces the usual files
  std::optional<std::string> password_file;           // DBLOCK_PASSWORD_FILE
  std::optional<std::string> config_password_file{};  // of a configuration file
  std::optional<PasswordCommand> password_command{};  // of a configuration file
  std::optional<std::string> password{};              // DBLOCK_PASSWORD
  bool in_password_command = false;  // this dblock is part of a password-command, which must not run itself
  std::string home;                  // for ~/.my.cnf and --local; empty: none
  std::vector<std::string>
      passed_over{};       // sentences about files of another user's home, which were not read
  std::string state_home;  // XDG_STATE_HOME, for --local; empty or relative: ~/.local/state
};

struct ResolvedSettings {
  Settings settings;
  std::vector<std::string> warnings;  // the caller shows them once
  std::vector<std::string> remarks;   // too common for a warning at each run; only doctor shows them
};

// For `local` or a sqlite: URL: SqliteSettings, without reading anything else. Otherwise MariadbSettings,
// where each part of the URL wins over the option files. The usual option files are /etc/my.cnf,
// /etc/mysql/my.cnf and ~/.my.cnf; a later one wins. find_password() finds the password, and may run the
// user's password-command: no thread may exist yet. A command that may work later fails nothing: its failure
// is in the settings. Errc::config if nothing is configured; the message names DBLOCK_DB, the option file,
// --db and --local.
[[nodiscard]] Result<ResolvedSettings> resolve_settings(const SettingsSources& sources);

}  // namespace dblock::store
