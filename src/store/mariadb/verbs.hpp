// The statements of sql/verbs/mariadb.
#pragma once

#include <string>
#include <string_view>

#include "store/verbs.hpp"

namespace dblock::store::mariadb {

// The statement, with `:name` for each parameter; empty if this store has no such statement.
[[nodiscard]] std::string_view sql(Verb verb);

// A number, below k_marks, that a statement sends and its reply returns, so that dblock does not take another
// statement's reply for it. It shares the insert id with the value that the statement tells (a token, a
// length): value*1024+mark.
struct Mark {
  std::uint64_t number = 0;
};
inline constexpr std::uint64_t k_marks = 1024;

// The statement with its parameters' values filled in. A parameter without a value stays as `:name`, which
// every server refuses.
[[nodiscard]] std::string render(Verb verb, const Parameters& parameters = {}, Mark mark = {});

}  // namespace dblock::store::mariadb
