#include "store/mariadb/session/errors.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

#include "store/mariadb/session/known_errors.hpp"
#include "store/mariadb/session/session_statements.hpp"
#include "store/mariadb/sql.hpp"

namespace dblock::store::mariadb {
namespace {

constexpr unsigned k_galera_not_ready = 1047;
constexpr unsigned k_option_forbids = 1290;
constexpr std::string_view k_not_ready = "not yet prepared";
constexpr unsigned k_first_client_error = 2000;
constexpr unsigned k_last_client_error = 2999;
constexpr unsigned k_first_connector_error = 5000;
constexpr unsigned k_last_connector_error = 5999;  // MySQL's servers go on from 6000

constexpr std::array k_wrong_names{k_no_database, k_name_too_long, k_wrong_database_name, k_no_text};
// A member of a replication group begins no transaction at group_replication_consistency=BEFORE or AFTER: it
// is not ONLINE, or hears nothing from the others.
constexpr std::array k_left_group{3783U, 3796U, 3799U};
// … or has not applied in time what the others have committed, or is about to leave.
constexpr unsigned k_not_caught_up = 3797;
constexpr std::array k_read_only{k_option_forbids, 1792U, 1836U};

bool among(std::span<const unsigned> numbers, unsigned native) {
  return std::ranges::find(numbers, native) != numbers.end();
}

// The tables' version, which the set-up statement puts into the value that sql_mode refuses; nullopt for
// other errors.
std::optional<unsigned> found_schema_version(const ServerError& error) {
  if (error.native != k_wrong_variable_value) return std::nullopt;
  const auto at = error.text.find(k_schema_mark);
  if (at == std::string::npos) return std::nullopt;
  unsigned version = 0;
  const char* const digits = error.text.data() + at + k_schema_mark.size();
  const auto read = std::from_chars(digits, error.text.data() + error.text.size(), version);
  if (read.ec != std::errc{}) return std::nullopt;
  return version;
}

// True if the server is read-only. The text of 1290 names the option that forbids the statement: --read-only,
// --super-read-only, --innodb-read-only, or another option that has nothing to do with replicas.
bool is_read_only(const ServerError& error) {
  if (error.native != k_option_forbids) return among(k_read_only, error.native);
  return error.text.find("read-only") != std::string::npos ||
         error.text.find("read_only") != std::string::npos;
}

// The number's meaning in this phase. The client library's own numbers say why a connection was not opened;
// later they tell nothing about the statement.
std::optional<Errc> known_code(unsigned native, Phase phase) {
  const auto* const known = std::ranges::find(k_known, native, &Known::native);
  if (known == k_known.end()) return std::nullopt;
  const bool of_login = known->code == Errc::denied;
  if (is_client_side(native) && phase != Phase::connect && !of_login) return std::nullopt;
  return known->code;
}

// Unless an error is known to mean "not done", the outcome is unknown.
Errc classify(const ServerError& error, Phase phase) {
  if (found_schema_version(error)) return Errc::schema;
  if (const auto code = known_code(error.native, phase)) return *code;
  if (is_wrong_host(error)) return Errc::unreachable;
  if (error.native == k_option_forbids) return Errc::config;
  if (phase == Phase::connect) return error.lasting ? Errc::config : Errc::unreachable;
  return phase == Phase::read ? Errc::unreachable : Errc::indeterminate;
}

std::string schema_sentence(unsigned found) {
  const std::string needed = std::to_string(schema_version());
  if (found > schema_version()) {
    return "dblock's tables have version " + std::to_string(found) +
           ", newer than this dblock, which knows " + needed + "; upgrade dblock";
  }
  return "dblock's tables have version " + std::to_string(found) + ", this dblock needs " + needed +
         "; run `dblock migrate`";
}

// True if the library lacks its file for the way to log in that the server asks for. The number depends on
// when the server asked: 2059, or 1045 as for a wrong password.
bool lacks_plugin(const ServerError& error) {
  return error.native == k_no_plugin || error.text.find(" could not be loaded: ") != std::string::npos;
}

// The table of the history has rights of its own, and `migrate --history on` makes it.
std::string_view advice_on_history(const ServerError& error) {
  if (error.text.find("dblock_history") == std::string::npos) return "";
  if (error.native == k_table_denied)
    return "; `dblock migrate --history on --print-grants USER` prints what to grant";
  return error.native == k_no_such_table ? "; `dblock migrate --history on` makes this table" : "";
}

std::string_view advice(Errc code, const ServerError& error) {
  const unsigned native = error.native;
  if (const auto of_history = advice_on_history(error); !of_history.empty()) return of_history;
  if (is_read_only(error)) return "; the server is read-only, is this a replica?";
  if (native == k_function_refuses)
    return "; run START GROUP_REPLICATION on it, or name the other members in the URL";
  if (native == k_option_forbids) return "; start the server without that option, or use another one";
  if (code == Errc::unreachable && native == k_galera_not_ready)
    return "; is this Galera node cut off from the majority, or still joining?";
  if (among(k_wrong_names, native)) return "; write the name of the database as SHOW DATABASES does";
  if (native == k_tls_demanded) return "; use tls=verify-full with tls-ca, or tls=require";
  if (native == k_tls_failed)
    return "; check tls, tls-ca, tls-cert and tls-key in the settings, and the certificate and name of the "
           "server";
  if (lacks_plugin(error))
    return "; install it (Debian: package libmariadb3), or give the account another way to log in";
  if (native == k_no_such_key)
    return "; is there a view in the place of dblock's table? `dblock doctor` says what to do";
  if (is_lock_wait(native))
    return "; does a backup lock the tables (FLUSH TABLES WITH READ LOCK), or a transaction their rows?";
  if (native == k_needs_row_logging) return "; set binlog_format=ROW or MIXED on the server";
  if (native == k_no_such_database) return "; create it with CREATE DATABASE, then run `dblock migrate`";
  switch (code) {
    case Errc::schema:
      return "; run `dblock migrate`";
    case Errc::denied:
      return "; check user, password and grants (`dblock migrate --print-grants USER` lists them)";
    case Errc::indeterminate:
      return "; whether it was done is not known";
    case Errc::internal:
      return "; this should not happen: were dblock's tables changed by hand?";
    default:
      return is_client_side(native) ? "; is the server up and can it be reached from here?" : "";
  }
}

// Removes the errno at the end of some of the library's messages: after a refused connection it is wrong.
std::string without_errno(std::string text) {
  const auto open = text.rfind(" (");
  if (open == std::string::npos || !text.ends_with(')')) return text;
  const auto digits = std::string_view(text).substr(open + 2, text.size() - open - 3);
  const bool is_number = !digits.empty() && digits.find_first_not_of("-0123456789") == std::string_view::npos;
  if (is_number) text.resize(open);
  return text;
}

}  // namespace

bool is_transient(unsigned native) {
  return native == k_deadlock || native == k_lock_wait_timed_out || native == 1020;
}

bool is_lock_wait(unsigned native) {
  return native == k_lock_wait_timed_out || native == k_lock_nowait;
}

bool keeps_connection(unsigned native) {
  return is_transient(native) || is_lock_wait(native) || native == k_duplicate_key ||
         native == k_null_refused;
}

bool is_wrong_host(unsigned native, std::string_view text) {
  if (native == k_function_refuses || native == k_not_caught_up) return true;
  if (native == k_galera_not_ready) return text.find(k_not_ready) != std::string_view::npos;
  return is_read_only({native, std::string(text)});
}

bool is_cut_off(const ServerError& error) {
  return error.text.find("Not connected to Primary Component") != std::string::npos;
}

bool is_lasting_tls_failure(const ServerError& error) {
  constexpr std::array<std::string_view, 21> k_lasting{
      "SSL is required", "ertificate", "finger print", "key values mismatch", "PEM lib", "unsupported",
      " alert ", "no protocols", "handshake failure", "key too small", "md too weak",
      // of files that hold no certificate or key, or a damaged or locked one
      "no start line", "bad base64 decode", "bad end line", "bad object header", "wrong tag", "field missing",
      ": too long", "header too long", "decode error", "processing error"};
  const auto says = [&](std::string_view part) { return error.text.find(part) != std::string::npos; };
  return error.native == k_tls_failed && std::ranges::any_of(k_lasting, says);
}

ServerError refusal_before_tls(ServerError error) {
  constexpr std::string_view k_introduction = "cannot be verified: ";
  const auto at = error.text.find(k_introduction);
  if (error.native != k_socket_failed || at == std::string::npos) return error;
  const std::string_view said = std::string_view(error.text).substr(at + k_introduction.size());
  ServerError own;
  const auto read = std::from_chars(said.data(), said.data() + said.size(), own.native);
  const auto text = said.substr(static_cast<std::size_t>(read.ptr - said.data()));
  if (read.ec != std::errc{} || !text.starts_with(" - ")) return error;
  own.text = text.substr(3);
  own.lasting = classify(own, Phase::connect) != Errc::unreachable;
  return own;
}

bool is_client_side(unsigned native) {
  return (native >= k_first_client_error && native <= k_last_client_error) ||
         (native >= k_first_connector_error && native <= k_last_connector_error);
}

ServerError wrong_host_error(ServerError error) {
  if (error.native == k_function_refuses || among(k_left_group, error.native))
    return {k_function_refuses, "the server is not an ONLINE member of its replication group"};
  if (error.native == k_not_caught_up)
    return {k_not_caught_up,
            "the server has not caught up with its replication group in time, or is about to leave it"};
  const auto says = [&](std::string_view part) { return error.text.find(part) != std::string::npos; };
  const bool by_setup = error.native == k_wrong_variable_value && says(k_read_only_mark);
  const bool by_change = error.native == k_null_refused && says("'version'");
  if (!by_setup && !by_change) return error;
  return {k_read_only.front(), "read_only is set"};
}

Error make_error(std::string_view attempt, std::string_view where, const ServerError& error, Phase phase) {
  const Errc code = classify(error, phase);
  std::string message = std::string(attempt) + " on " + std::string(where) + ": ";
  if (const auto found = found_schema_version(error)) {
    message += schema_sentence(*found);
  } else if (error.native == k_plugin_not_allowed) {
    message += error.text;  // log_in() wrote this text, advice included
  } else {
    message += is_client_side(error.native) ? without_errno(error.text) : error.text;
    if (error.native != 0) message += " (error " + std::to_string(error.native) + ")";
    message += advice(code, error);
  }
  return Error{code, std::move(message), error.native};
}

}  // namespace dblock::store::mariadb
