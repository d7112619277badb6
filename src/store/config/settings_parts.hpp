// Pieces that the sources of settings share. Private to this folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/small_file.hpp"
#include "store/config/settings.hpp"

namespace dblock::store {

[[nodiscard]] std::optional<TlsMode> parse_tls_mode(std::string_view text);

// dblock's word for another program's TLS mode: "verify-full" for VERIFY_IDENTITY; empty if none is known.
[[nodiscard]] std::string_view tls_mode_meant(std::string_view value);

// What to write in place of another program's parameter of a URL: "tls=require" for ssl-mode=REQUIRED. One of
// `own_names` for another spelling of it. Empty if no word of dblock's is known. Never repeats `value`.
[[nodiscard]] std::string parameter_meant(std::string_view name, std::string_view value,
                                          std::span<const std::string_view> own_names);

// Errc::config for a URL that begins with a quote of any kind: the quotes of a shell, copied too.
[[nodiscard]] Result<void> check_no_quote(std::string_view url);

// Errc::config, with the scheme to use, for a URL that does not begin with mysql: or mariadb:.
[[nodiscard]] Result<void> check_scheme(std::string_view url);

// True for text with a control character of ASCII.
[[nodiscard]] bool has_control(std::string_view text);

// True if `text` may be a host name or address: by its characters, its length and the length of each label.
// The client library would read a "host" with '=' in it as a list of options.
[[nodiscard]] bool is_host(std::string_view text);

// nullopt unless `text` is a number from 1 to 65535.
[[nodiscard]] std::optional<std::uint16_t> parse_port(std::string_view text);

// A duration such as "5s", at least 1 ms, else Errc::config; `name` is the setting's name for the message.
[[nodiscard]] Result<std::chrono::milliseconds> parse_connect_timeout(std::string_view name,
                                                                      std::string_view text);

// Merges two sources: a field of `over` replaces that of `under`. Hosts and socket count as one field.
[[nodiscard]] PartialSettings laid_over(PartialSettings over, const PartialSettings& under);

// The content of option files. [dblock] is kept apart, because it wins whatever the order of the files.
struct OptionGroups {
  PartialSettings dblock;
  PartialSettings client;
  std::uint16_t dblock_port = 0;  // [dblock]'s `port`, kept apart because it may come before `host`
  std::vector<std::string> warnings;
  std::vector<std::string> remarks;
  std::vector<std::string> passed_over;

  [[nodiscard]] PartialSettings dblock_settings() const;
  [[nodiscard]] bool has_other_settings(const OptionGroups& than) const {
    return dblock != than.dblock || client != than.client || dblock_port != than.dblock_port;
  }
};

// Adds the options of `path` and the files that it includes to `groups`. A missing file changes nothing.
[[nodiscard]] Result<void> read_option_groups(const std::string& path, OptionGroups& groups, Found found);

// Stores the password and its source in `out`. The first of these that is set wins: the password of the URL;
// a password file, of the URL, of DBLOCK_PASSWORD_FILE, of option files or of a configuration file; a
// password-command, of the URL, of option files or of a configuration file; DBLOCK_PASSWORD; the password of
// option files. What is to be asked again when a login is refused is in `out`, too.
[[nodiscard]] Result<void> find_password(const SettingsSources& sources, const PartialSettings& url,
                                         const PartialSettings& files, MariadbSettings& out,
                                         std::vector<std::string>& warnings);

// `path` as seen from the root directory; "" stays "".
[[nodiscard]] std::string absolute_path(const std::string& path);

}  // namespace dblock::store
