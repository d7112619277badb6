// The SQL that is built into this binary: the statements of sql/verbs/mariadb and the migrations, sql/*.sql.
// Only bytes_literal() and render() turn values from outside into SQL. They write hexadecimal literals, which
// no character set, quote or sql_mode can turn into anything but a value.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "store/schema.hpp"
#include "store/verb_facts.hpp"

namespace dblock::store::mariadb {

// The statement, with `:name` for each parameter and `[name|text]` for text that depends on one; empty if
// this store has no such statement.
[[nodiscard]] std::string_view sql(Verb verb);
// The statement's name: that of its file, without ".sql".
[[nodiscard]] std::string_view name_of(Verb verb);

// Returns `text`, the statement's text. It does not compile if it is not what facts_of() says.
[[nodiscard]] consteval std::string_view checked(Verb verb, std::string_view text) {
  const VerbFacts facts = facts_of(verb);
  const auto has = [text](std::string_view part) { return text.find(part) != std::string_view::npos; };
  const Tells unmarked = has("LAST_INSERT_ID(") ? Tells::plain : Tells::nothing;
  must_be(facts.tells == (has(":mark") ? Tells::marked : unmarked));
  must_be(facts.looks == (has("@@hostname") && has("FROM dblock_pause")));
  must_be(facts.rows_per_lease == 1 + int{has("fence.token=")} + int{has("own.token=")});
  must_be(facts.one_lease == (facts.rows_per_lease > 1 && !has(":rows")));
  return store::checked(verb, text);
}

// What the session adds to a statement that changes rows.
struct Additions {
  // Below k_marks. The statement sends it and its reply returns it, so that dblock does not take another
  // statement's reply for it. It shares the insert id with the value that the statement tells (a token, a
  // length): value*1024+mark.
  std::uint64_t mark = 0;
  // The statement fails on a server that takes no writes ({next_version} in sql/verbs/mariadb/terms.sql).
  bool proves_writes = false;
  // The statement also fails on a server that is not an ONLINE member of its replication group.
  bool proves_membership = false;
  // A release also frees the named lock by which others see that this session's request is there.
  bool wakes = false;
};
inline constexpr std::uint64_t k_marks = 1024;

// The statement with its parameters' values filled in, and with the text of each `[name|text]` whose
// parameter has a value that is neither NULL nor 0. Another parameter without a value stays as `:name`, which
// every server refuses.
[[nodiscard]] std::string render(Verb verb, const Parameters& parameters = {}, Additions added = {});

// x'6b' for "k".
[[nodiscard]] std::string bytes_literal(std::string_view bytes);

// Each holds one statement: MySQL commits at each DDL statement anyway. In ascending order of version;
// versions count 1, 2, 3, … without gaps.
[[nodiscard]] std::span<const Migration> migrations();

// The procedures of sql/procedures, and their version. Each holds one statement, which replaces an older
// version of the procedure where the server can do so (MariaDB).
[[nodiscard]] std::span<const Procedure> procedures();
[[nodiscard]] unsigned procedures_version();

// The newest version that this binary knows.
[[nodiscard]] inline unsigned schema_version() {
  return migrations().back().version;
}

}  // namespace dblock::store::mariadb
