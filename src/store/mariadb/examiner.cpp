// Collects the facts for `doctor` from MariaDB and MySQL, from each host.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "store/mariadb/factory.hpp"
#include "store/mariadb/routine_text.hpp"
#include "store/mariadb/session/challenge.hpp"
#include "store/mariadb/session/client_library.hpp"
#include "store/mariadb/session/login.hpp"
#include "store/mariadb/session/result.hpp"
#include "store/mariadb/session/session_statements.hpp"
#include "store/mariadb/sql.hpp"
#include "store/rows.hpp"
#include "store/schema.hpp"
#include "store/sql_grant.hpp"

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds k_network_timeout = 10s;
constexpr int k_clock_readings = 5;
constexpr const char* k_attempt = "cannot examine the database";

std::string identity_statement() {
  return render(Verb::this_server);
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

Reply reply_of(const ServerError& words) {
  constexpr unsigned k_column_denied = 1143;
  constexpr unsigned k_routine_denied = 1370;
  if (words.native == k_no_such_table) return Reply::no_table;
  if (words.native == k_no_such_key) return Reply::no_key;
  const bool denied =
      words.native == k_table_denied || words.native == k_column_denied || words.native == k_routine_denied;
  return denied ? Reply::denied : Reply::refused;
}

std::unexpected<Refusal> refusal(const ServerError& words) {
  return std::unexpected(
      Refusal{reply_of(words), words.text + " (error " + std::to_string(words.native) + ")"});
}

// A session that continues after an error: for doctor a refusal is an answer.
class Session {
 public:
  explicit Session(Handle handle) : handle_(std::move(handle)) {}

  // The statement's rows, with column names in lower case.
  std::expected<RowSet, ServerError> ask(const std::string& sql) {
    if (api().mysql_real_query(handle_.get(), sql.data(), sql.size()) != 0) return refused();
    auto table = fetch_rows(handle_.get(), MemoryLimit::few);
    if (table) std::ranges::transform(table->names, table->names.begin(), lower);
    return table;
  }

  // The same for a CALL, behind whose rows the server sends the call's status.
  std::expected<RowSet, ServerError> call(const std::string& sql) {
    auto answer = ask(sql);
    while (answer && api().mysql_next_result(handle_.get()) == 0)
      [[maybe_unused]] const auto status = fetch_rows(handle_.get(), MemoryLimit::few);
    return answer;
  }

  // The first cell; empty for NULL, no row or an error.
  std::string value(const std::string& sql) {
    const auto table = ask(sql);
    return table && !table->rows.empty() ? table->rows.front()[0].value_or("") : "";
  }

  // Runs a statement and tells whether the server answered; the rows do not matter.
  Reply attempt(const std::string& sql) {
    const auto answer = ask(sql);
    return answer ? Reply::answered : reply_of(answer.error());
  }

  // Reads a result of two columns, names and values.
  Names names(const std::string& sql) {
    Names names;
    const auto table = ask(sql);
    if (!table || table->names.size() < 2) return names;
    for (const auto& row : table->rows) names.emplace(lower(row[0].value_or("")), row[1].value_or(""));
    return names;
  }

  // Why the connection has broken; nullopt: it has not. What was asked since then has no answer.
  [[nodiscard]] const std::optional<ServerError>& broken() const { return broken_; }

  [[nodiscard]] std::string cipher() {
    const char* const name = api().mysql_get_ssl_cipher(handle_.get());
    return name == nullptr ? "" : name;
  }

 private:
  std::unexpected<ServerError> refused() {
    ServerError words = last_words(handle_.get());
    if (!broken_ && is_client_side(words.native)) broken_ = words;
    return std::unexpected(std::move(words));
  }

  Handle handle_;
  std::optional<ServerError> broken_;
};

Micros wall_clock() {
  return std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch());
}

std::optional<ClockReading> read_clock(Session& session) {
  std::optional<ClockReading> best;
  for (int i = 0; i < k_clock_readings; ++i) {
    const BootTime sent = BootClock::now();
    const Micros before = wall_clock();
    const std::string server = session.value(render(Verb::server_time));
    const auto half = std::chrono::duration_cast<Micros>(BootClock::now() - sent) / 2;
    if (server.empty()) return best;
    if (!best || half < best->uncertainty) best = ClockReading{micros(server) - before - half, half};
  }
  return best;
}

// A statement that needs the privilege and changes nothing, whatever the tables hold. That for SELECT names
// an index, which no view has: a view in the table's place makes it fail before any code of the view runs.
std::string trial_of(const std::string& privilege, const std::string& table) {
  if (privilege == "SELECT") return "SELECT 1 FROM " + table + " USE INDEX (PRIMARY) LIMIT 0";
  if (privilege == "INSERT") return "EXPLAIN INSERT INTO " + table + " () VALUES ()";
  if (privilege == "UPDATE") {
    const std::string column = table == "dblock_pause" ? "pause_key" : "lock_key";
    return "EXPLAIN UPDATE " + table + " SET " + column + "=" + column + " WHERE 1=0";
  }
  if (privilege == "DELETE") return "EXPLAIN DELETE FROM " + table + " WHERE 1=0";
  return {};
}

// The table grants that a job's account needs.
std::vector<SqlGrant> needed_grants(const std::string& database) {
  std::vector<SqlGrant> needed;
  const auto statements = grants_for("x", database);
  if (!statements) return needed;
  for (const auto& statement : *statements) {
    if (auto grant = parse_grant(statement); grant && !grant->routine) needed.push_back(std::move(*grant));
  }
  return needed;
}

// Tries privileges on a table, SELECT first, and the others only if that was answered: they could run code of
// a view, even by EXPLAIN. What is not tried has the reply to SELECT. Nobody can put a view in the place of a
// table before the end of a transaction that has read the table. REQUIRES: a transaction.
std::vector<PrivilegeTried> try_table(Session& session, const std::string& table,
                                      const std::vector<std::string>& privileges) {
  std::vector<PrivilegeTried> tried;
  for (const auto& privilege : privileges) {
    const bool may_try = tried.empty() || tried.front().reply == Reply::answered;
    tried.push_back({privilege, may_try ? session.attempt(trial_of(privilege, table)) : tried.front().reply});
  }
  return tried;
}

// Tries the privileges one by one instead of reading SHOW GRANTS, so that roles and name patterns count
// exactly as for the server.
void try_privileges(Session& session, HostFacts& facts) {
  for (const auto& grant : needed_grants(facts.database)) {
    auto replies = try_table(session, grant.object, grant.privileges);
    if (replies.front().reply == Reply::no_key) facts.replaced.push_back(grant.object);
    for (auto& tried : replies) {
      tried.privilege += " on " + grant.object;
      facts.privileges.push_back(std::move(tried));
    }
  }
}

// Calls the procedure, which does not run with this account's rights, so that it changes nothing: for a lock
// that nobody holds, or with arguments that it refuses by its own error. Another error means that there is no
// such procedure, that this account may not call it, or that the account which installed it is gone or may
// not do what the procedure does.
ProcedureTried try_procedure(Session& session, std::string_view name) {
  constexpr unsigned k_raised_by_procedure = 1644;
  constexpr unsigned k_read_only = 1290;  // raised by the procedure as well
  constexpr unsigned k_no_such_routine = 1305;
  constexpr unsigned k_routine_denied = 1370;
  const std::string_view arguments = name == "dblock_acquire"       ? "(NULL,NULL,NULL,NULL,NULL,NULL)"
                                     : name == "dblock_assert_held" ? "('dblock doctor',0)"
                                     : name == "dblock_renew"       ? "('dblock doctor','dblock doctor',NULL)"
                                                                    : "('dblock doctor','dblock doctor')";
  ProcedureTried tried{std::string(name)};
  const auto answer = session.call("CALL " + tried.name + std::string(arguments));
  if (answer) return tried;
  using Answer = ProcedureTried::Answer;
  const unsigned native = answer.error().native;
  if (native == k_raised_by_procedure || native == k_read_only) return tried;
  tried.answer = native == k_no_such_routine  ? Answer::missing
                 : native == k_routine_denied ? Answer::denied
                                              : Answer::broken;
  tried.words = refusal(answer.error()).error().words;
  return tried;
}

// Whether the account has rights that somebody who may write in this database could use by a procedure there.
// Somebody can exchange a procedure at any moment, also between a look at it and its call: with such an
// account none is called.
bool has_more_rights(Session& session, const HostFacts& facts) {
  // The `_` of a grant on `my_locks` stands for any character.
  constexpr const char* k_others_of_pattern =
      "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE DATABASE() AND SCHEMA_NAME <> "
      "DATABASE()";
  return reach_beyond(facts.grants, facts.database) || session.value(k_others_of_pattern) != "0";
}

// A procedure that the account is shown.
struct Shown {
  std::optional<std::uint64_t> version;  // empty: it does not say that it is dblock's
  bool runs_as_definer = false;
  bool has_our_mode = false;  // sql_mode, which decides what the text means
  Field text;                 // empty: not shown to this account
};

std::map<std::string, Shown> read_shown(Session& session) {
  std::map<std::string, Shown> shown;
  const auto found = session.ask(
      "SELECT ROUTINE_NAME, SECURITY_TYPE = 'DEFINER', SQL_MODE = " + render(Verb::session_mode) +
      ", ROUTINE_DEFINITION FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() AND "
      "ROUTINE_TYPE = 'PROCEDURE'");
  if (!found) return shown;
  const Names versions = session.names(render(Verb::installed_procedures));
  for (const auto& row : found->rows) {
    const std::string name = row[0].value_or("");
    const auto version = versions.find(name);
    shown[name] = {version == versions.end() ? std::nullopt : std::optional(unsigned_number(version->second)),
                   unsigned_number(row[1]) == 1, unsigned_number(row[2]) == 1, row[3]};
  }
  return shown;
}

// The texts of other versions are not known here.
bool is_foreign(const Shown& shown, const Procedure& procedure) {
  if (!shown.version || !shown.runs_as_definer) return true;
  if (*shown.version != procedures_version()) return false;
  return !shown.has_our_mode || (shown.text && !is_body_of(*shown.text, procedure.sql));
}

void read_procedures(Session& session, HostFacts& facts) {
  using Answer = ProcedureTried::Answer;
  const auto all = read_shown(session);
  const bool may_call = !has_more_rights(session, facts);
  const auto unseen = show_procedures(facts.grants, facts.database) ? Answer::missing : Answer::denied;
  for (const auto& procedure : procedures()) {
    const std::string name(procedure.name);
    const auto shown = all.find(name);
    const bool is_there = shown != all.end();
    ProcedureTried tried{name, is_there ? Answer::untried : unseen};
    if (is_there && is_foreign(shown->second, procedure)) {
      tried.answer = Answer::foreign;
    } else if (may_call) {
      tried = try_procedure(session, name);
    }
    tried.outdated = is_there && shown->second.version && *shown->second.version < procedures_version();
    facts.procedures.push_back(std::move(tried));
  }
}

void read_history(Session& session, HostFacts& facts) {
  const std::string kept = session.value(render(Verb::keeps_history));
  if (kept.empty()) return;
  facts.keeps_history = kept != "0";
  if (!*facts.keeps_history) return;
  facts.history_privileges = try_table(session, "dblock_history", {"SELECT", "INSERT", "DELETE"});
  if (facts.history_privileges.front().reply == Reply::no_key) facts.replaced.emplace_back("dblock_history");
}

void read_schema(Session& session, HostFacts& facts) {
  facts.schema_needed = schema_version();
  const auto version = session.ask(render(Verb::newest_version));
  if (!version) {
    facts.schema_version = refusal(version.error());
  } else if (!version->rows.empty()) {
    facts.schema_version = static_cast<unsigned>(unsigned_number(version->rows.front()[0]));
    facts.schema_serves = static_cast<unsigned>(unsigned_number(version->rows.front()[1]));
  }
  for (const auto& grant : needed_grants(facts.database)) {
    const auto engine = session.value(render(Verb::table_engine, {{"table", Scalar(Word{grant.object})}}));
    if (!engine.empty()) facts.engines.emplace(grant.object, engine);
  }
  facts.key_type = lower(session.value(render(Verb::key_type)));
}

// Tries both names of the statement: newer servers have dropped the old one, older servers lack the new one.
void read_replication(Session& session, HostFacts& facts) {
  auto answer = session.ask("SHOW REPLICA STATUS");
  if (!answer) answer = session.ask("SHOW SLAVE STATUS");
  facts.replica_known = answer.has_value();
  if (!answer || answer->rows.empty()) return;
  Names row;
  for (std::size_t i = 0; i < answer->names.size(); ++i) {
    std::string name = answer->names[i];
    if (name == "seconds_behind_master") name = "seconds_behind_source";
    row.emplace(std::move(name), answer->rows.front()[i].value_or(""));
  }
  facts.replica = std::move(row);
}

std::optional<bool> read_membership(Session& session, const HostFacts& facts) {
  if (facts.replication_group().empty()) return std::nullopt;
  const auto answer = session.ask(render(Verb::is_group_member));
  if (answer) return true;
  return answer.error().native == k_function_refuses ? std::optional(false) : std::nullopt;
}

FactOr<std::optional<std::string>> try_named_lock(Session& session) {
  const auto answer = session.ask(render(Verb::try_named_lock));
  if (!answer) return refusal(answer.error());
  return answer->rows.empty() ? std::nullopt : answer->rows.front()[0];
}

std::vector<std::string> read_grants(Session& session) {
  std::vector<std::string> grants;
  const auto answer = session.ask("SHOW GRANTS");
  if (!answer) return grants;
  for (const auto& row : answer->rows) grants.push_back(row[0].value_or(""));
  return grants;
}

// The number behind a word of CREATE USER, which also holds the hash of the account's password.
std::uint64_t limit_in(const std::string& create_user, std::string_view word) {
  const std::size_t at = create_user.find(std::string(" ").append(word).append(" "));
  if (at == std::string::npos) return 0;
  const std::size_t begin = at + word.size() + 2;
  const std::size_t end = create_user.find_first_not_of("0123456789", begin);
  return unsigned_number(create_user.substr(begin, end - begin));
}

AccountLimits read_limits(Session& session) {
  AccountLimits limits;
  if (const auto answer = session.ask(render(Verb::account_sessions)); answer && !answer->rows.empty()) {
    limits.sessions = unsigned_number(answer->rows.front()[0]);
    limits.sessions_used = unsigned_number(answer->rows.front()[1]);
  }
  const std::string account = session.value("SHOW CREATE USER CURRENT_USER()");
  limits.queries_per_hour = limit_in(account, "MAX_QUERIES_PER_HOUR");
  limits.updates_per_hour = limit_in(account, "MAX_UPDATES_PER_HOUR");
  limits.connections_per_hour = limit_in(account, "MAX_CONNECTIONS_PER_HOUR");
  return limits;
}

// In a transaction, for try_table(). It does not stay open if this process is stopped.
void read_tables(Session& session, HostFacts& facts) {
  session.attempt("SET SESSION wait_timeout=10");
  session.attempt("START TRANSACTION");
  try_privileges(session, facts);
  read_schema(session, facts);
  read_history(session, facts);
  if (const auto pauses = session.ask(render(Verb::list_pauses))) {
    for (const auto& row : pauses->rows) facts.pauses.push_back(read_pause(row));
  }
  session.attempt("COMMIT");
}

void read_server(Session& session, HostFacts& facts) {
  facts.cipher = session.cipher();
  facts.version = session.value("SELECT VERSION()");
  facts.account = session.value("SELECT CURRENT_USER()");
  facts.clock = read_clock(session);
  facts.variables = session.names("SHOW GLOBAL VARIABLES");
  facts.status = session.names("SHOW GLOBAL STATUS");
  facts.grants = read_grants(session);
  facts.limits = read_limits(session);
  read_tables(session, facts);
  if (facts.schema_version) read_procedures(session, facts);
  read_replication(session, facts);
  facts.group_member = read_membership(session, facts);
  facts.named_lock = try_named_lock(session);
  facts.identity = session.value(identity_statement());
}

std::string shown(const HostPort* host, const MariadbSettings& settings) {
  if (host == nullptr) return settings.socket.empty() ? "local socket" : "socket " + settings.socket;
  return host->host + (host->port != 0 ? ":" + std::to_string(host->port) : "");
}

// Opens a session and proves that its replies come from the server (challenge.hpp).
std::expected<Session, ServerError> open_session(const MariadbSettings& settings, const HostPort* host) {
  auto handle = log_in(settings, host, k_network_timeout);
  if (!handle) return std::unexpected(std::move(handle.error()));
  if (auto proved = set_up_bare(handle->get()); !proved) return std::unexpected(std::move(proved.error()));
  return Session(std::move(*handle));
}

HostFacts examine_host(const MariadbSettings& settings, const HostPort* host) {
  HostFacts facts;
  facts.host = shown(host, settings);
  facts.tls = settings.tls;
  facts.database = settings.database;
  facts.over_socket = host == nullptr || (host->host == "localhost" && host->port == 0);
  const BootTime begun = BootClock::now();
  auto session = open_session(settings, host);
  facts.connect_time = std::chrono::duration_cast<Micros>(BootClock::now() - begun);
  if (!session) {
    facts.failed = make_error(k_attempt, facts.host, session.error(), Phase::connect).message;
    return facts;
  }
  read_server(*session, facts);
  if (session->broken()) {
    facts.failed = make_error(k_attempt, facts.host, *session->broken(), Phase::read).message;
    return facts;
  }
  if (auto second = open_session(settings, host); second)
    facts.identity_of_second = second->value(identity_statement());
  return facts;
}

}  // namespace

Result<std::string> client_library_in_use() {
  if (const auto& library = client_library(); !library) return std::unexpected(library.error());
  const std::string tls = tls_library();
  return client_library_version() + (tls.empty() ? " without TLS" : " with " + tls);
}

ServerFacts gather_facts(const MariadbSettings& settings) {
  forget_environment();
  ServerFacts facts{client_library_in_use(), {}, settings.min_replicas};
  if (!facts.client_library) return facts;
  if (settings.hosts.empty()) facts.hosts.push_back(examine_host(settings, nullptr));
  for (const auto& host : settings.hosts) facts.hosts.push_back(examine_host(settings, &host));
  return facts;
}

}  // namespace dblock::store::mariadb
