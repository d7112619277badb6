// Parses database URLs. Messages name the faulty part, but never repeat text that may be part of a password.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "store/config/settings_parts.hpp"

namespace dblock::store {
namespace {

constexpr std::string_view k_grammar =
    "mysql://[USER[:PASS]@]HOST[:PORT][,HOST2[:PORT2]…]/DATABASE[?param=…]";
constexpr std::string_view k_encode_hint =
    "; characters such as / ? # @ : % in a user name or password are written percent-encoded (%2F for /)";

std::unexpected<Error> wrong(std::string_view part) {
  return fail(Errc::config, "the database URL has " + std::string(part) + "; its form is " +
                                std::string(k_grammar) + std::string(k_encode_hint));
}

std::optional<unsigned> hex_value(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

Result<std::string> percent_decoded(std::string_view text, std::string_view part) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const auto high = i + 2 < text.size() ? hex_value(text[i + 1]) : std::nullopt;
    const auto low = high ? hex_value(text[i + 2]) : std::nullopt;
    if (!low) return wrong("a % that two hexadecimal digits do not follow in " + std::string(part));
    decoded += static_cast<char>(*high * 16U + *low);
    i += 2;
  }
  if (decoded.find('\0') != std::string::npos) return wrong("a zero byte in " + std::string(part));
  return decoded;
}

// Cuts `text` at the first `mark`. Without a mark there is no second half.
std::pair<std::string_view, std::optional<std::string_view>> cut(std::string_view text, char mark) {
  const auto at = text.find(mark);
  if (at == std::string_view::npos) return {text, std::nullopt};
  return {text.substr(0, at), text.substr(at + 1)};
}

Result<void> read_user(std::string_view userinfo, PartialSettings& out) {
  const auto [user, password] = cut(userinfo, ':');
  DBLOCK_TRY(auto decoded, percent_decoded(user, "the user name"));
  if (!decoded.empty()) out.user = std::move(decoded);
  if (!password) return {};
  DBLOCK_TRY(out.password, percent_decoded(*password, "the password"));
  return {};
}

Result<HostPort> read_host(std::string_view text) {
  HostPort result;
  std::string_view rest;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return wrong("an IPv6 address whose [ is not closed");
    result.host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
    if (result.host.find(':') == std::string::npos)
      return wrong("brackets around what is not an IPv6 address");
  } else {
    if (text.find('(') != std::string_view::npos)
      return wrong("a host in parentheses, as in tcp(HOST:PORT), where HOST:PORT is enough");
    const auto colon = text.find(':');
    DBLOCK_TRY(result.host, percent_decoded(text.substr(0, colon), "a host"));
    rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon);
    if (result.host.find(':') != std::string::npos) return wrong("an IPv6 address without [ ]");
  }
  if (!is_host(result.host)) return wrong("an empty or impossible host name");
  if (rest.empty()) return result;
  const auto port = rest.front() == ':' ? parse_port(rest.substr(1)) : std::nullopt;
  if (!port) return wrong("a port that is not a number from 1 to 65535");
  result.port = *port;
  return result;
}

Result<void> read_authority(std::string_view authority, PartialSettings& out) {
  const auto at = authority.rfind('@');
  if (at != std::string_view::npos) DBLOCK_CHECK(read_user(authority.substr(0, at), out));
  std::optional<std::string_view> rest = authority.substr(at == std::string_view::npos ? 0 : at + 1);
  if (rest->empty()) return {};
  while (rest) {
    const auto [text, more] = cut(*rest, ',');
    DBLOCK_TRY(auto host, read_host(text));
    out.hosts.push_back(std::move(host));
    rest = more;
  }
  return {};
}

using Text = std::optional<std::string> PartialSettings::*;
struct TextParameter {
  std::string_view name;
  Text field;
};
constexpr std::array k_text_parameters{
    TextParameter{"socket", &PartialSettings::socket},
    TextParameter{"tls-ca", &PartialSettings::tls_ca},
    TextParameter{"tls-cert", &PartialSettings::tls_cert},
    TextParameter{"tls-key", &PartialSettings::tls_key},
    TextParameter{"password-file", &PartialSettings::password_file},
};

constexpr std::array<std::string_view, 10> k_parameters{
    "socket",          "tls",           "tls-ca",           "tls-cert",     "tls-key",
    "connect-timeout", "password-file", "password-command", "min-replicas", "connection"};

// Refuses another program's parameter, with dblock's word for it. `rest` is the URL from there on: with an @
// in it, the parameter may be the rest of a password that contains a '?', and is shown only if it is known.
std::unexpected<Error> unknown_parameter(std::string_view text, std::string_view rest) {
  const auto [name, raw] = cut(text, '=');
  const auto value = percent_decoded(raw.value_or(""), "a parameter");
  const std::string meant = parameter_meant(name, value.value_or(""), k_parameters);
  const bool maybe_secret = rest.find('@') != std::string_view::npos || !raw || name.size() > 60;
  const std::string shown = "the database URL has an unknown parameter" +
                            (meant.empty() && maybe_secret ? "" : " " + quote_untrusted(name));
  if (!meant.empty()) return fail(Errc::config, shown + "; write " + meant);
  std::string known;
  for (const auto one : k_parameters) known += (known.empty() ? "" : ", ") + std::string(one);
  return fail(Errc::config, shown + "; leave it out, for dblock knows only " + known +
                                (maybe_secret ? std::string(k_encode_hint) : ""));
}

// 0 to 100 replicas; more is taken to be a mistake.
Result<unsigned> parse_min_replicas(std::string_view text) {
  unsigned count = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
  if (read.ec == std::errc{} && read.ptr == text.data() + text.size() && count <= 100) return count;
  return fail(Errc::config, "min-replicas in the database URL must be a number from 0 to 100");
}

Result<HolderSession> parse_connection(std::string_view text) {
  if (text == "auto") return HolderSession::automatic;
  if (text == "keep") return HolderSession::keep;
  if (text == "brief") return HolderSession::brief;
  return fail(Errc::config, "connection in the database URL must be keep, brief or auto");
}

Result<TlsMode> parse_tls(std::string_view text) {
  if (const auto mode = parse_tls_mode(text)) return *mode;
  const std::string meant = parameter_meant("tls", text, k_parameters);
  const bool one_mode = parse_tls_mode(std::string_view(meant).substr(meant.find('=') + 1)).has_value();
  return fail(Errc::config, "tls in the database URL must be off, prefer, require, verify-ca or verify-full" +
                                (one_mode ? "; write " + meant : ""));
}

Result<void> read_parameter(std::string_view text, std::string_view rest, PartialSettings& out) {
  const auto [name, raw] = cut(text, '=');
  if (std::ranges::find(k_parameters, name) == k_parameters.end()) return unknown_parameter(text, rest);
  DBLOCK_TRY(auto value, percent_decoded(raw.value_or(""), "parameter " + std::string(name)));
  if (value.empty()) return wrong("no value for the parameter \"" + std::string(name) + "\"");
  const auto* const known = std::ranges::find(k_text_parameters, name, &TextParameter::name);
  if (known != k_text_parameters.end()) {
    out.*(known->field) = std::move(value);
    return {};
  }
  if (name == "tls") {
    DBLOCK_TRY(out.tls, parse_tls(value));
    return {};
  }
  if (name == "password-command") {
    out.password_command = {std::move(value), "password-command in the URL"};
    return {};
  }
  if (name == "min-replicas") {
    DBLOCK_TRY(out.min_replicas, parse_min_replicas(value));
    return {};
  }
  if (name == "connection") {
    DBLOCK_TRY(out.connection, parse_connection(value));
    return {};
  }
  DBLOCK_TRY(out.connect_timeout, parse_connect_timeout("connect-timeout in the database URL", value));
  return {};
}

// Refuses a path that names no file, or most likely not the file that the user meant.
Result<void> check_path(std::string_view path) {
  const auto refuse = [](std::string_view why) {
    return fail(Errc::config, "the database URL " + std::string(why) +
                                  "; its form is sqlite:PATH, for example sqlite:/var/lib/dblock/locks.db");
  };
  if (path.empty()) return refuse("names no file");
  if (path.starts_with(":memory:")) return refuse("asks for a store in memory, which guards nothing");
  if (path.ends_with('/')) return refuse("names a directory");
  if (path.find("?min-replicas=") != std::string_view::npos)
    return refuse("asks for replicas, but a file has none");
  if (path == "~" || path.starts_with("~/")) {
    return refuse("starts with a ~ that no shell has replaced: write the whole path (or ./~ for that name)");
  }
  if (has_control(path)) return refuse("has a control character in its path");
  return {};
}

}  // namespace

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20U || byte == 0x7fU;
  });
}

Result<PartialSettings> parse_url(std::string_view url) {
  url = trimmed(url);  // a secret's file often ends with a line end
  if (has_control(url)) return wrong("a control character, such as the end of a line, in it");
  DBLOCK_CHECK(check_no_quote(url));
  const auto colon = url.find(':');
  if (colon == std::string_view::npos) {
    return fail(Errc::config, "the database URL has no scheme; its form is " + std::string(k_grammar) +
                                  " or sqlite:PATH" + std::string(k_encode_hint));
  }
  DBLOCK_CHECK(check_scheme(url));
  url.remove_prefix(colon + 1);
  if (!url.starts_with("//")) return wrong("no // after its scheme");
  url.remove_prefix(2);

  PartialSettings out;
  auto [before, parameters] = cut(url, '?');
  const auto [authority, path] = cut(before, '/');
  DBLOCK_CHECK(read_authority(authority, out));
  if (path && !path->empty()) {
    // Then the '/' may be a part of the password, and the name its rest, which is shown.
    if (path->find('@') != std::string_view::npos) return wrong("an @ in the database name");
    DBLOCK_TRY(out.database, percent_decoded(*path, "the database name"));
    if (out.database->find('/') != std::string::npos) return wrong("more than one / after the host");
  }
  while (parameters && !parameters->empty()) {
    const auto [text, more] = cut(*parameters, '&');
    DBLOCK_CHECK(read_parameter(text, *parameters, out));
    parameters = more;
  }
  if (out.socket && !out.hosts.empty() && out.hosts != std::vector{HostPort{"localhost", 0}})
    return wrong("both a host and a socket");
  return out;
}

bool is_sqlite_url(std::string_view url) {
  const auto [scheme, rest] = cut(trimmed(url), ':');
  return rest && lower_case(scheme) == "sqlite";
}

Result<SqliteSettings> parse_sqlite_url(std::string_view url) {
  std::string_view path = cut(trimmed(url), ':').second.value_or("");
  if (path.starts_with("//")) {
    path.remove_prefix(2);
    if (!path.empty() && path.front() != '/') {
      return fail(Errc::config,
                  "the database URL names a host, but an embedded store is a file of this host; its form is "
                  "sqlite:PATH or sqlite:///PATH");
    }
  }
  DBLOCK_CHECK(check_path(path));
  std::string absolute = absolute_path(std::string(path));
  if (!absolute.starts_with('/')) {
    return fail(Errc::config,
                "the database URL names a file relative to the current directory, which cannot be found; "
                "write the whole path");
  }
  return SqliteSettings{std::move(absolute)};
}

}  // namespace dblock::store
