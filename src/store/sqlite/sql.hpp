// The SQL that is built into this binary: the statements of sql/verbs/sqlite and the migrations,
// sql/sqlite/*.sql.
#pragma once

#include <span>
#include <string_view>

#include "store/schema.hpp"
#include "store/verb_facts.hpp"

namespace dblock::store::sqlite {

// The statement, with `:name` for each parameter; empty if this store has no such statement.
[[nodiscard]] std::string_view sql(Verb verb);

// Returns `text`, the statement's text. It does not compile if it is not what facts_of() says. (`forget`
// returns tokens too, of all the rows that it deletes.)
[[nodiscard]] consteval std::string_view checked(Verb verb, std::string_view text) {
  const bool returns = text.find("RETURNING ") != std::string_view::npos;
  must_be(returns == (facts_of(verb).tells == Tells::marked || verb == Verb::forget));
  return store::checked(verb, text);
}

// Each holds any number of statements, all run in one transaction. In ascending order of version; versions
// count 1, 2, 3, … without gaps.
[[nodiscard]] std::span<const Migration> migrations();

// The newest version that this binary knows; it migrates older stores.
[[nodiscard]] inline unsigned schema_version() {
  return migrations().back().version;
}

}  // namespace dblock::store::sqlite
