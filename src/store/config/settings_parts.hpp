// Pieces of settings.hpp that its sources share. Private to this folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "store/config/settings.hpp"

namespace dblock::store {

[[nodiscard]] std::optional<TlsMode> parse_tls_mode(std::string_view text);

// A name or address that holds nothing but what those are made of. The client library would read a "host"
// with
// '=' in it as a list of options.
[[nodiscard]] bool is_host(std::string_view text);

// 1 to 65535.
[[nodiscard]] std::optional<std::uint16_t> parse_port(std::string_view text);

// "5s", at least 1 ms; `name` is for the message.
[[nodiscard]] Result<std::chrono::milliseconds> parse_connect_timeout(std::string_view name,
                                                                      std::string_view text);

// Fields that `over` has replace those of `under`; hosts and socket count as one field.
[[nodiscard]] PartialSettings laid_over(PartialSettings over, const PartialSettings& under);

// The groups of option files, apart because [dblock] wins over the others whatever the order of the files.
struct OptionGroups {
  PartialSettings dblock;
  PartialSettings client;
  std::uint16_t dblock_port = 0;  // for hosts of [dblock] whichever of the two lines came first
  std::vector<std::string> warnings;
  std::vector<std::string> remarks;

  [[nodiscard]] PartialSettings dblock_settings() const;
};

// Reads `path` and what it includes on top of `groups`. A missing file changes nothing.
[[nodiscard]] Result<void> read_option_groups(const std::string& path, OptionGroups& groups);

// The password and where it is from, put into `out`. The first source that has one wins: the URL, its
// password-file, DBLOCK_PASSWORD_FILE, option files.
[[nodiscard]] Result<void> find_password(const SettingsSources& sources, const PartialSettings& url,
                                         const PartialSettings& files, MariadbSettings& out,
                                         std::vector<std::string>& warnings);

// "" stays "".
[[nodiscard]] std::string absolute_path(const std::string& path);

}  // namespace dblock::store
