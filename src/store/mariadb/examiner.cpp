// Collects the facts for `doctor` from MariaDB and MySQL, from each host.
#include <chrono>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "store/mariadb/examiner_procedures.hpp"
#include "store/mariadb/examiner_session.hpp"
#include "store/mariadb/factory.hpp"
#include "store/mariadb/session/challenge.hpp"
#include "store/mariadb/session/client_library.hpp"
#include "store/mariadb/session/login.hpp"
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

Micros wall_clock() {
  return std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch());
}

std::optional<ClockReading> read_clock(ExaminerSession& session) {
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
std::vector<PrivilegeTried> try_table(ExaminerSession& session, const std::string& table,
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
void try_privileges(ExaminerSession& session, HostFacts& facts) {
  for (const auto& grant : needed_grants(facts.database)) {
    auto replies = try_table(session, grant.object, grant.privileges);
    if (replies.front().reply == Reply::no_key) facts.replaced.push_back(grant.object);
    for (auto& tried : replies) {
      tried.privilege += " on " + grant.object;
      facts.privileges.push_back(std::move(tried));
    }
  }
}

void read_history(ExaminerSession& session, HostFacts& facts) {
  const std::string kept = session.value(render(Verb::history_state));
  if (kept.empty()) return;
  facts.keeps_history = kept != "0";
  if (!*facts.keeps_history) return;
  facts.history_privileges = try_table(session, "dblock_history", {"SELECT", "INSERT", "DELETE"});
  if (facts.history_privileges.front().reply == Reply::no_key) facts.replaced.emplace_back("dblock_history");
}

void read_schema(ExaminerSession& session, HostFacts& facts) {
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
  facts.key_type = lower_case(session.value(render(Verb::key_type)));
}

// Tries both names of the statement: newer servers have dropped the old one, older servers lack the new one.
void read_replication(ExaminerSession& session, HostFacts& facts) {
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

std::optional<bool> read_membership(ExaminerSession& session, const HostFacts& facts) {
  if (facts.replication_group().empty()) return std::nullopt;
  const auto answer = session.ask(render(Verb::is_group_member));
  if (answer) return true;
  return answer.error().native == k_function_refuses ? std::optional(false) : std::nullopt;
}

std::vector<GroupMember> read_members(ExaminerSession& session, const HostFacts& facts) {
  std::vector<GroupMember> members;
  if (facts.replication_group().empty()) return members;
  const auto answer = session.ask(render(Verb::list_group_members));
  if (!answer) return members;
  for (const auto& row : answer->rows) members.push_back({row[0].value_or(""), row[1] == "1"});
  return members;
}

FactOr<std::optional<std::string>> try_named_lock(ExaminerSession& session) {
  const auto answer = session.ask(render(Verb::try_named_lock));
  if (!answer) return refusal(answer.error());
  return answer->rows.empty() ? std::nullopt : answer->rows.front()[0];
}

std::vector<std::string> read_grants(ExaminerSession& session) {
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

AccountLimits read_limits(ExaminerSession& session) {
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
void read_tables(ExaminerSession& session, HostFacts& facts) {
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

void read_server(ExaminerSession& session, HostFacts& facts) {
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
  facts.group_members = read_members(session, facts);
  facts.named_lock = try_named_lock(session);
  facts.identity = session.value(identity_statement());
}

std::string shown(const HostPort* host, const MariadbSettings& settings) {
  if (host == nullptr) return settings.socket.empty() ? "local socket" : "socket " + settings.socket;
  return host->host + (host->port != 0 ? ":" + std::to_string(host->port) : "");
}

// Opens a session and proves that its replies come from the server (challenge.hpp).
std::expected<ExaminerSession, ServerError> open_session(const MariadbSettings& settings,
                                                         const HostPort* host) {
  auto handle = log_in(settings, host, k_network_timeout);
  if (!handle) return std::unexpected(std::move(handle.error()));
  auto proved = set_up_bare(handle->get());
  if (!proved) return std::unexpected(std::move(proved.error()));
  ExaminerSession session(std::move(*handle));
  if (proved->has_group_plugin) static_cast<void>(session.ask(render(Verb::read_now_in_group)));
  return session;
}

HostFacts examine_host(const MariadbSettings& settings, const HostPort* host,
                       const std::optional<lease::OwnerId>& caller) {
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
  if (caller) try_calls(*session, facts, *caller);
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

ServerFacts gather_facts(const MariadbSettings& settings, const std::optional<lease::OwnerId>& caller) {
  forget_environment();
  ServerFacts facts{client_library_in_use(), {}, settings.min_replicas};
  if (!facts.client_library) return facts;
  if (settings.hosts.empty()) facts.hosts.push_back(examine_host(settings, nullptr, caller));
  for (const auto& host : settings.hosts) facts.hosts.push_back(examine_host(settings, &host, caller));
  return facts;
}

}  // namespace dblock::store::mariadb
