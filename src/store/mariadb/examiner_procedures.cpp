#include "store/mariadb/examiner_procedures.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "store/mariadb/routine_text.hpp"
#include "store/mariadb/sql.hpp"
#include "store/rows.hpp"
#include "store/sql_grant.hpp"

namespace dblock::store::mariadb {
namespace {

// Calls the procedure, which does not run with this account's rights, so that it changes nothing: for a lock
// that nobody holds, or with arguments that it refuses by its own error. Another error means that there is no
// such procedure, that this account may not call it, or that the account which installed it is gone or may
// not do what the procedure does.
ProcedureTried try_procedure(ExaminerSession& session, std::string_view name) {
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
  tried.message = refusal(answer.error()).error().message;
  return tried;
}

// Whether the account has rights that somebody who may write in this database could use by a procedure there.
// Somebody can exchange a procedure at any moment, also between a look at it and its call: with such an
// account none is called.
bool has_more_rights(ExaminerSession& session, const HostFacts& facts) {
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

std::map<std::string, Shown> read_shown(ExaminerSession& session) {
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

}  // namespace

void read_procedures(ExaminerSession& session, HostFacts& facts) {
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

void try_calls(ExaminerSession& session, HostFacts& facts, const lease::OwnerId& caller) {
  using namespace std::chrono_literals;
  constexpr std::string_view k_key = "dblock doctor 3";
  const auto callable = [](const ProcedureTried& tried) {
    return tried.answer == ProcedureTried::Answer::callable;
  };
  const auto covers = [&](const lease::Pause& pause) { return pause.scope.covers(k_key); };
  if (facts.is_read_only() || facts.procedures.empty() || !std::ranges::all_of(facts.procedures, callable) ||
      std::ranges::any_of(facts.pauses, covers))
    return;
  const std::string key = "(" + bytes_literal(k_key) + ",";
  const std::string lease = key + bytes_literal(caller.text);
  std::string token;
  // False once the outcome is not the one that this call must have.
  const auto call = [&](const std::string& name, const std::string& arguments, std::string_view expected) {
    CallTried tried{name};
    const auto answer = session.call("CALL " + name + arguments + ")");
    if (!answer) tried.message = refusal(answer.error()).error().message;
    if (!answer && (answer.error().native == k_deadlock || answer.error().native == k_lock_wait_timed_out))
      tried.outcome = "busy";
    if (answer && !answer->rows.empty()) {
      tried.outcome = answer->rows.front()[0].value_or("");
      token = answer->rows.front()[1].value_or("");
    }
    facts.calls.push_back(tried);
    return tried.outcome == expected;
  };
  // Another trial may have the lock, or one that has died: for no longer than its lease and margin.
  const BootTime give_up = BootClock::now() + 7s;
  while (!call("dblock_acquire", lease + ",5000,NULL,0,'dblock doctor --try'", "granted")) {
    const std::string& outcome = facts.calls.back().outcome;
    if ((outcome != "held" && outcome != "busy") || BootClock::now() > give_up) return;
    facts.calls.pop_back();
    std::this_thread::sleep_for(200ms);
  }
  session.attempt("START TRANSACTION");
  const bool held = call("dblock_assert_held", key + std::to_string(unsigned_number(token)), "held");
  session.attempt("COMMIT");
  if (held && call("dblock_renew", lease + ",NULL", "renewed") && call("dblock_release", lease, "released"))
    return;
  [[maybe_unused]] const auto given_back = session.call("CALL dblock_release" + lease + ")");
}

}  // namespace dblock::store::mariadb
