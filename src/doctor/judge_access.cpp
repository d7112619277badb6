#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>

#include "doctor/judgements.hpp"
#include "store/sql_grant.hpp"

namespace dblock::doctor {
namespace {

using store::Reply;
using store::SqlGrant;
using store::TlsMode;

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string_view name_of(TlsMode mode) {
  constexpr std::array<std::string_view, 5> k_names{"off", "prefer", "require", "verify-ca", "verify-full"};
  return k_names.at(static_cast<std::size_t>(mode));
}

Finding connection(const HostFacts& facts) {
  if (!facts.failed.empty()) return {"connection", Level::bad, "", facts.failed, {}};
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(facts.connect_time).count();
  return {"connection",
          Level::ok,
          facts.version,
          "logged in as " + facts.account + " within " + std::to_string(milliseconds) + " ms",
          {}};
}

Finding tls(const HostFacts& facts) {
  if (facts.over_socket) return {"tls", Level::ok, "Unix socket", "nothing leaves this host", {}};
  if (!facts.cipher.empty()) return {"tls", Level::ok, facts.cipher, "the connection is encrypted", {}};
  return {"tls",
          Level::warn,
          "plain text",
          "who can reach the network in between may read what jobs do, and change it; the password itself is "
          "never sent. Use tls=verify-full, or the Unix socket",
          {}};
}

Finding certificate(const HostFacts& facts) {
  const std::string mode = "tls=" + std::string(name_of(facts.tls));
  if (facts.over_socket) return {"certificate", Level::ok, "", "none is needed on a Unix socket", {}};
  if (facts.tls == TlsMode::verify_full)
    return {"certificate", Level::ok, mode, "authority and name are checked", {}};
  if (facts.tls == TlsMode::verify_ca) {
    return {"certificate",
            Level::warn,
            mode,
            "the authority is checked but not the name: any server with a certificate of it can pose as this "
            "one; use tls=verify-full",
            {}};
  }
  return {
      "certificate",
      Level::warn,
      mode,
      "nobody checks that this is the right server, and who poses as it may even be told the password; use "
      "tls=verify-full with tls-ca",
      {}};
}

// An error that is no denial (a missing table, a read-only server) says nothing about privileges.
Finding privileges(const HostFacts& facts) {
  std::vector<std::string> missing;
  std::vector<std::string> unknown;
  for (const auto& [privilege, reply] : facts.privileges) {
    if (reply == Reply::answered) continue;
    (reply == Reply::denied ? missing : unknown).push_back(privilege);
  }
  if (!missing.empty()) {
    return {"privileges",
            Level::bad,
            "missing: " + joined(missing),
            "jobs will be refused (77); `dblock migrate --print-grants USER` prints what to grant",
            {}};
  }
  if (!unknown.empty() || facts.privileges.empty()) {
    return {"privileges",
            Level::warn,
            "not known",
            "whether the account has what jobs need cannot be told here: a table is missing or replaced, or "
            "the server is read-only",
            {}};
  }
  return {"privileges", Level::ok, std::to_string(facts.privileges.size()) + " needed, all there", "", {}};
}

// True for a privilege with which the account may write although read_only is set.
bool bypasses_read_only(const SqlGrant& grant) {
  constexpr std::array<std::string_view, 4> k_bypass{"SUPER", "READ ONLY ADMIN", "READ_ONLY ADMIN",
                                                     "CONNECTION_ADMIN"};
  if (!grant.database.empty()) return false;
  return std::ranges::any_of(grant.privileges, [&](const std::string& privilege) {
    return privilege.starts_with("ALL") || std::ranges::find(k_bypass, privilege) != k_bypass.end();
  });
}

bool is_more_than_needed(const SqlGrant& grant, const std::string& privilege) {
  constexpr std::array<std::string_view, 5> k_rows{"SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE"};
  if (store::only_looks(privilege)) return false;
  return grant.database.empty() || std::ranges::find(k_rows, privilege) == k_rows.end();
}

Finding excess(const HostFacts& facts) {
  std::vector<std::string> more;
  bool bypass = false;
  for (const auto& line : facts.grants) {
    const auto grant = store::parse_grant(line);
    if (!grant) continue;
    bypass = bypass || bypasses_read_only(*grant);
    std::vector<std::string> here;
    std::ranges::copy_if(grant->privileges, std::back_inserter(here), [&](const std::string& privilege) {
      return is_more_than_needed(*grant, privilege);
    });
    if (here.size() > 4) here = {here[0], here[1], "…", here.back()};
    if (!here.empty()) more.push_back(joined(here) + " on " + grant->scope());
  }
  if (facts.grants.empty()) return {"excess", Level::ok, "not known", "the server shows no grants", {}};
  if (more.empty()) return {"excess", Level::ok, "none", "the account can do no more than its work", {}};
  const std::string advice =
      "give jobs an account with the grants of `dblock migrate --print-grants USER`, and keep this one for "
      "migrate";
  if (bypass && facts.is_read_only()) {
    return {"excess",
            Level::bad,
            joined(more),
            "read_only does not stop this account: locks would be taken on a replica; " + advice,
            {}};
  }
  return {"excess",
          Level::warn,
          joined(more),
          (bypass ? "read_only would not stop this account from taking locks on a replica; " : "") + advice,
          {}};
}

std::string mismatch(const HostFacts& facts, unsigned found) {
  const std::string needed = "this dblock needs version " + std::to_string(facts.schema_needed);
  return found > facts.schema_needed ? needed + "; upgrade dblock" : needed + "; run `dblock migrate`";
}

// Faults of tables whose version is right: they were changed by hand, or restored by a tool.
std::vector<std::string> table_faults(const HostFacts& facts) {
  std::vector<std::string> faults;
  for (const auto& [table, engine] : facts.engines) {
    if (engine == "InnoDB") continue;
    faults.push_back(table);
    faults.back().append(" has engine ").append(engine).append(", not InnoDB");
  }
  if (!facts.key_type.empty() && facts.key_type != "varbinary(255)")
    faults.push_back("lock_key is " + facts.key_type + ", not varbinary(255)");
  return faults;
}

Finding schema(const HostFacts& facts) {
  if (!facts.replaced.empty()) {
    return {
        "schema",
        Level::bad,
        "not dblock's: " + joined(facts.replaced),
        "somebody has replaced it by a view, or it has lost its primary key. A view can run code with the "
        "rights of whoever reads it: look at it with SHOW CREATE TABLE, drop it, and put the table back",
        {}};
  }
  if (!facts.schema_version) {
    const auto& refusal = facts.schema_version.error();
    if (refusal.reply == Reply::no_table)
      return {"schema", Level::bad, "no tables", "run `dblock migrate`", {}};
    return {"schema", Level::bad, "not known", refusal.message, {}};
  }
  const std::string found = "version " + std::to_string(*facts.schema_version);
  if (*facts.schema_version < facts.schema_needed || facts.schema_serves > facts.schema_needed)
    return {"schema", Level::bad, found, mismatch(facts, *facts.schema_version), {}};
  if (const auto faults = table_faults(facts); !faults.empty()) {
    return {"schema",
            Level::bad,
            joined(faults),
            "locks are not safe in such tables; were they changed by hand?",
            {}};
  }
  if (*facts.schema_version > facts.schema_needed)
    return {"schema", Level::ok, found, "newer than this dblock, which it serves", {}};
  return {"schema", Level::ok, found, "the one this dblock needs", {}};
}

// No lock needs the history, so no finding here is bad.
Finding history(const HostFacts& facts) {
  if (!*facts.keeps_history)
    return {"history", Level::ok, "not kept", "`dblock migrate --history on` begins one", {}};
  std::vector<std::string> missing;
  for (const auto& [privilege, reply] : facts.history_privileges) {
    if (reply == Reply::no_table)
      return {
          "history", Level::warn, "no table", "no run is recorded; run `dblock migrate --history on`", {}};
    if (reply == Reply::denied) missing.push_back(privilege);
  }
  if (missing.empty()) return {"history", Level::ok, "kept", "`dblock history` shows it", {}};
  return {
      "history",
      Level::warn,
      "missing: " + joined(missing) + " on dblock_history",
      "runs of this account are not recorded, or not shown, or not forgotten; `dblock migrate --history on "
      "--print-grants USER` prints what to grant",
      {}};
}

// The procedures with this answer, as "dblock_renew, dblock_release"; empty: none.
std::string procedures_that(const HostFacts& facts, store::ProcedureTried::Answer answer) {
  std::vector<std::string> names;
  for (const auto& tried : facts.procedures)
    if (tried.answer == answer) names.push_back(tried.name);
  return joined(names);
}

// What this account may not call is no fault: jobs need at most dblock_assert_held(), many need none.
Finding procedures(const HostFacts& facts) {
  using Answer = store::ProcedureTried::Answer;
  if (const auto foreign = procedures_that(facts, Answer::foreign); !foreign.empty()) {
    return {"procedures",
            Level::bad,
            "not dblock's: " + foreign,
            "somebody has changed or replaced it, and it may run with the rights of whoever calls it. Do not "
            "call it: look at it with SHOW CREATE PROCEDURE, drop it, and run `dblock migrate`",
            {}};
  }
  const auto broken = std::ranges::find(facts.procedures, Answer::broken, &store::ProcedureTried::answer);
  if (broken != facts.procedures.end()) {
    return {"procedures",
            Level::warn,
            "broken: " + procedures_that(facts, Answer::broken),
            "applications cannot use the locks: " + broken->message +
                ". Drop the procedures, and run `dblock migrate` as an account that stays, and has the "
                "rights that dblock-migrate(1) names",
            {}};
  }
  if (const auto missing = procedures_that(facts, Answer::missing); !missing.empty()) {
    return {"procedures",
            Level::warn,
            "missing: " + missing,
            "applications cannot use the locks, or jobs cannot guard their own transactions; run `dblock "
            "migrate` as an account with CREATE ROUTINE",
            {}};
  }
  if (std::ranges::any_of(facts.procedures, &store::ProcedureTried::outdated)) {
    return {"procedures", Level::warn, "of an older version", "run `dblock migrate`", {}};
  }
  if (!procedures_that(facts, Answer::untried).empty()) {
    return {"procedures",
            Level::ok,
            "there, and not called",
            "this account has rights on more than this database, which a procedure could use; to have the "
            "procedures called, run doctor with the account of the jobs",
            {}};
  }
  const auto callable = procedures_that(facts, Answer::callable);
  const auto denied = procedures_that(facts, Answer::denied);
  return {"procedures",
          Level::ok,
          callable.empty() ? "there" : "callable: " + callable,
          denied.empty()
              ? ""
              : "not for this account: " + denied +
                    "; `dblock migrate --print-grants USER --applications` prints what an application "
                    "needs",
          {}};
}

// The last call is the only one that can have failed.
Finding calls(const HostFacts& facts) {
  const auto& last = facts.calls.back();
  if (last.outcome == "released")
    return {"try-procedures", Level::ok, "", "an application takes, asserts, renews and releases a lock", {}};
  return {"try-procedures",
          Level::bad,
          last.name + ": " + (last.outcome.empty() ? "failed" : last.outcome),
          last.message.empty() ? "let no application rely on this database" : last.message,
          {}};
}

}  // namespace

std::vector<Finding> judge_access(const HostFacts& facts) {
  if (!facts.failed.empty()) return {connection(facts)};
  std::vector<Finding> findings{connection(facts), tls(facts),    certificate(facts),
                                privileges(facts), excess(facts), schema(facts)};
  if (!facts.procedures.empty()) findings.push_back(procedures(facts));
  if (!facts.calls.empty()) findings.push_back(calls(facts));
  if (facts.keeps_history) findings.push_back(history(facts));
  return findings;
}

}  // namespace dblock::doctor
