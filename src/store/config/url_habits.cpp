// What other programs write into a database URL, and dblock's word for it.
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/text.hpp"
#include "store/config/settings_parts.hpp"

namespace dblock::store {
namespace {

// One meaning under many names: ssl-mode, ssl_mode, sslMode, ssl.mode.
std::string letters_and_digits(std::string_view text) {
  std::string out;
  for (const unsigned char c : text) {
    if (std::isalnum(c) != 0) out += static_cast<char>(std::tolower(c));
  }
  return out;
}

// `write` is what to write instead. Where the value tells the TLS mode, `yes` and `no` are the modes of a
// switch that is on or off.
struct Habit {
  std::string_view name, write, yes = {}, no = {};
};
constexpr std::string_view k_tls = "tls=off, prefer, require, verify-ca or verify-full";
constexpr std::string_view k_ca = "tls-ca=FILE, a file in PEM format";
constexpr std::string_view k_certificate = "tls-cert=FILE, a file in PEM format";
constexpr std::string_view k_key = "tls-key=FILE, a file in PEM format";
constexpr std::string_view k_socket = "socket=PATH";
constexpr std::string_view k_timeout = "connect-timeout with a unit, such as connect-timeout=5s";
constexpr std::string_view k_by_password_file = "password-file=FILE";
constexpr std::string_view k_place = "it before the ?: mysql://USER@HOST:PORT/DATABASE";
constexpr std::string_view k_option_file = "--defaults-file FILE on the command line";

// clang-format off
constexpr auto k_habits = std::to_array<Habit>({
    {"sslmode", k_tls, "require", "off"}, {"ssl", k_tls, "require", "off"}, {"usessl", k_tls, "require", "off"},
    {"requiressl", k_tls, "require", "prefer"}, {"usetls", k_tls, "require", "off"}, {"sslenabled", k_tls, "require", "off"},
    {"tls", k_tls, "verify-full", "off"}, {"skipssl", k_tls, "off", "require"}, {"ssldisabled", k_tls, "off", "require"},
    {"sslaccept", k_tls, "verify-full", "require"}, {"rejectunauthorized", k_tls, "verify-full", "require"},
    {"verifyservercertificate", k_tls, "verify-full", "require"}, {"sslverify", k_tls, "verify-full", "require"},
    {"sslverifyservercert", k_tls, "verify-full", "require"}, {"tlsverify", k_tls, "verify-full", "require"},
    {"sslverifyidentity", k_tls, "verify-full", "verify-ca"}, {"sslverifycert", k_tls, "verify-ca", "require"},
    {"trustservercertificate", k_tls, "require", "verify-full"},
    {"disablesslhostnameverification", k_tls, "verify-ca", "verify-full"},
    {"sslca", k_ca}, {"sslcafile", k_ca}, {"sslcapath", k_ca}, {"sslrootcert", k_ca}, {"serversslcert", k_ca}, {"sslcacert", k_ca},
    {"ca", k_ca}, {"cafile", k_ca}, {"cacert", k_ca}, {"trustcertificatekeystoreurl", k_ca}, {"truststore", k_ca},
    {"sslcert", k_certificate}, {"sslcertfile", k_certificate}, {"sslclientcert", k_certificate}, {"cert", k_certificate},
    {"clientcertificatekeystoreurl", k_certificate}, {"keystore", k_certificate}, {"sslidentity", k_certificate},
    {"sslkey", k_key}, {"sslkeyfile", k_key}, {"sslclientkey", k_key},
    {"unixsocket", k_socket}, {"socketpath", k_socket}, {"localsocket", k_socket}, {"mysqlsocket", k_socket},
    {"sock", k_socket}, {"unix", k_socket},
    {"timeout", k_timeout}, {"connecttimeout", k_timeout}, {"connectiontimeout", k_timeout}, {"logintimeout", k_timeout},
    {"password", k_by_password_file}, {"passwd", k_by_password_file}, {"pwd", k_by_password_file}, {"pass", k_by_password_file},
    {"user", k_place}, {"username", k_place}, {"uid", k_place}, {"host", k_place}, {"hostname", k_place}, {"server", k_place},
    {"port", k_place}, {"database", k_place}, {"dbname", k_place}, {"db", k_place},
    {"readdefaultfile", k_option_file}, {"defaultsfile", k_option_file}, {"defaultfile", k_option_file},
});
struct TlsWord {
  std::string_view word, mode;
};
constexpr auto k_tls_words = std::to_array<TlsWord>({
    {"disabled", "off"}, {"disable", "off"}, {"none", "off"},
    {"preferred", "prefer"}, {"prefer", "prefer"}, {"allow", "prefer"},
    {"required", "require"}, {"require", "require"}, {"trust", "require"}, {"skipverify", "require"},
    {"acceptinvalidcerts", "require"}, {"rejectunauthorizedfalse", "require"},
    {"verifyca", "verify-ca"}, {"verifyidentity", "verify-full"}, {"verifyfull", "verify-full"}, {"strict", "verify-full"},
    {"rejectunauthorizedtrue", "verify-full"}, {"amazonrds", "verify-full"},
});
// clang-format on

std::string_view tls_word(const Habit& habit, std::string_view value) {
  const std::string word = letters_and_digits(value);
  if (word.empty() || word == "true" || word == "1" || word == "yes" || word == "on") return habit.yes;
  if (word == "false" || word == "0" || word == "no" || word == "off") return habit.no;
  return tls_mode_meant(value);
}

std::string_view scheme_meant(const std::string& scheme) {
  for (const auto& [part, write] : {std::pair{"mariadb", "mariadb://"},
                                    {"mysql", "mysql://"},
                                    {"trilogy", "mysql://"},
                                    {"sqlite", "sqlite:PATH"}}) {
    if (scheme.find(part) != std::string::npos) return write;
  }
  return {};
}

}  // namespace

std::string_view tls_mode_meant(std::string_view value) {
  const auto* const found = std::ranges::find(k_tls_words, letters_and_digits(value), &TlsWord::word);
  return found == k_tls_words.end() ? std::string_view{} : found->mode;
}

std::string parameter_meant(std::string_view name, std::string_view value,
                            std::span<const std::string_view> own_names) {
  const std::string letters = letters_and_digits(name);
  const auto* const habit = std::ranges::find(k_habits, letters, &Habit::name);
  if (habit != k_habits.end()) {
    const auto mode = habit->yes.empty() ? std::string_view{} : tls_word(*habit, value);
    return mode.empty() ? std::string(habit->write) : "tls=" + std::string(mode);
  }
  const auto own = std::ranges::find(own_names, letters, letters_and_digits);
  return own == own_names.end() ? std::string() : std::string(*own);
}

Result<void> check_no_quote(std::string_view url) {
  constexpr std::array<std::string_view, 8> k_quotes{"\"",     "'",      "`",      "\u201c",
                                                     "\u201d", "\u201e", "\u2018", "\u2019"};
  if (std::ranges::none_of(k_quotes, [&](auto quote) { return url.starts_with(quote); })) return {};
  return fail(Errc::config,
              "the database URL begins with a quote, which counts as a part of it; write it without quotes");
}

Result<void> check_scheme(std::string_view url) {
  const std::string start = lower_case(url.substr(0, 6));
  const bool is_java = start.starts_with("jdbc:") || start == "r2dbc:";
  const std::string_view scheme = url.substr(0, url.find(is_java ? "://" : ":"));
  const std::string lower = lower_case(scheme);
  if (lower == "mysql" || lower == "mariadb") return {};
  // What stands before the colon of user:password@host is no scheme.
  const bool certain = url.substr(scheme.size()).starts_with("://");
  const std::string_view marks = certain ? "0123456789+-._:" : "";
  const bool shown =
      (certain || url.find('@') == std::string_view::npos) && std::ranges::all_of(lower, [&](char c) {
        return (c >= 'a' && c <= 'z') || marks.find(c) != std::string_view::npos;
      });
  const auto meant = scheme_meant(lower);
  if (certain && !shown && !meant.empty() && scheme.ends_with(meant.substr(0, meant.find(':'))))
    return fail(Errc::config,
                "the database URL has something before " + std::string(meant) + "; leave it out");
  return fail(Errc::config, "the database URL's scheme" +
                                (shown ? " " + quote_untrusted(scheme) : std::string()) +
                                " is not supported; use " +
                                std::string(meant.empty() ? "mysql://, mariadb:// or sqlite:PATH" : meant));
}

}  // namespace dblock::store
