// The database's URL: what is accepted reads back, and the password shows nowhere.
#include <array>
#include <utility>

#include "base/duration.hpp"
#include "cli/options/password.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/secret.hpp"
#include "store/config/settings.hpp"

namespace dblock::fuzz {
namespace {

using store::PartialSettings;

std::string encoded(std::string_view text) {
  std::string url;
  for (const char c : text) {
    std::array<char, 4> code{};
    std::snprintf(code.data(), code.size(), "%%%02X", static_cast<unsigned>(static_cast<std::uint8_t>(c)));
    url += code.data();
  }
  return url;
}

// The whole URL of these settings.
std::string url_of(const PartialSettings& settings) {
  std::string url = "mysql://";
  if (settings.user) url += encoded(*settings.user);
  if (settings.password) url += ":" + encoded(*settings.password);
  if (settings.user || settings.password) url += "@";
  for (const auto& host : settings.hosts) {
    const bool numbers = host.host.find(':') != std::string::npos;
    url += (&host == &settings.hosts.front() ? "" : ",") +
           (numbers ? "[" + host.host + "]" : encoded(host.host)) +
           (host.port == 0 ? "" : ":" + std::to_string(host.port));
  }
  url += "/" + encoded(settings.database.value_or(""));
  std::string mark = "?";
  const auto add = [&](std::string_view name, const std::string& value) {
    url += std::exchange(mark, "&") + std::string(name) + "=" + encoded(value);
  };
  constexpr std::array k_modes{"off", "prefer", "require", "verify-ca", "verify-full"};
  constexpr std::array k_sessions{"auto", "keep", "brief"};
  if (settings.socket) add("socket", *settings.socket);
  if (settings.tls) add("tls", k_modes.at(static_cast<std::size_t>(*settings.tls)));
  if (settings.tls_ca) add("tls-ca", *settings.tls_ca);
  if (settings.tls_cert) add("tls-cert", *settings.tls_cert);
  if (settings.tls_key) add("tls-key", *settings.tls_key);
  if (settings.connect_timeout) add("connect-timeout", format_duration(*settings.connect_timeout));
  if (settings.password_file) add("password-file", *settings.password_file);
  if (settings.password_command) add("password-command", settings.password_command->command);
  if (settings.min_replicas) add("min-replicas", std::to_string(*settings.min_replicas));
  if (settings.connection) add("connection", k_sessions.at(static_cast<std::size_t>(*settings.connection)));
  return url;
}

void check_sqlite(const std::string& url) {
  if (!store::is_sqlite_url(url)) return;
  const auto file = store::parse_sqlite_url(url);
  demand(!file || file->path.starts_with('/'), "the file's path is absolute", url);
}

void check_accepted(const std::string& url, const PartialSettings& settings) {
  for (const auto& host : settings.hosts)
    demand(!host.host.empty() && host.host.find_first_of("=;@/ \n") == std::string::npos, "a host is one",
           url);
  const std::string whole = url_of(settings);
  const auto again = store::parse_url(whole);
  demand(again && *again == settings, "settings read back from their own URL", url + " -> " + whole);
}

// What a whole start makes of it. No file is read, and no command run.
void check_resolved(const std::string& url, const PartialSettings& settings) {
  if (settings.password_file || settings.password_command) return;
  // dblock cannot tell a password that spells `@/?socket=` from a socket.
  for (const auto& path : {settings.socket, settings.tls_ca, settings.tls_cert, settings.tls_key})
    if (path && path->find(k_secret) != std::string::npos) return;
  store::SettingsSources sources;
  sources.url = url;
  sources.url_from_command_line = true;
  sources.defaults_file = "/dev/null";
  const auto resolved = store::resolve_settings(sources);
  if (!resolved) return demand_no_secret(resolved.error().message, url);
  demand_no_secret(store::display(resolved->settings), url);
  for (const auto& warning : resolved->warnings) demand_no_secret(warning, url);
}

// USER, PASSWORD and the rest, one a line: the secret is in the password as a whole.
std::string with_secret(Input& input) {
  const auto part = [&](char end, std::string_view without) {
    std::string text = end == '\0' ? input.rest() : input.until(end);
    std::erase_if(text, [&](char c) { return c == '\0' || without.find(c) != std::string_view::npos; });
    for (auto at = text.find(k_secret); at != std::string::npos; at = text.find(k_secret))
      text.erase(at, k_secret.size());
    return text;
  };
  const std::string user = part('\n', ":/?#@");
  const std::string before = part('\n', "");
  const std::string after = part('\n', "");
  return "mysql://" + user + ":" + before + std::string(k_secret) + after + "@" + part('\0', "");
}

// The first byte says whether the rest is a URL, or parts of one with a secret.
std::string_view run_url(Input input) {
  const bool secret = (input.byte() & 1U) != 0;
  std::string url = secret ? with_secret(input) : input.rest();
  std::erase(url, '\0');  // no word of a command line, variable or file holds one
  if (url.size() > 1000) return "too long";
  check_sqlite(url);
  const auto settings = store::parse_url(url);
  if (settings) check_accepted(url, *settings);
  if (!settings) demand(settings.error().code == Errc::config, "a bad URL is bad configuration", url);
  if (secret) {
    if (!settings) demand_no_secret(settings.error().message, url);
    if (settings) check_resolved(url, *settings);
    std::string typed = url;
    cli::mask_url_password(typed.data());
    demand_no_secret(typed.c_str(), url);
  }
  return settings ? "accepted" : "refused";
}

}  // namespace
}  // namespace dblock::fuzz

DBLOCK_FUZZ_TARGET(url, dblock::fuzz::run_url)
