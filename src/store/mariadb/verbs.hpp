// The statements of sql/verbs/mariadb.
#pragma once

#include <string>
#include <string_view>

#include "store/verbs.hpp"

namespace dblock::store::mariadb {

// The statement with `:name` for each parameter; empty where this store has none of that name.
[[nodiscard]] std::string_view sql(Verb verb);

// A number that is sent with a statement and comes back in its reply, so that no reply to another statement
// is taken for it. Below k_marks: what a statement has to tell (a token, a length) shares the insert id with
// it, as value*1024+mark.
struct Mark {
  std::uint64_t number = 0;
};
inline constexpr std::uint64_t k_marks = 1024;

// The statement with each parameter's value. A parameter without a value stays as it is, which no server
// takes.
[[nodiscard]] std::string render(Verb verb, const Parameters& parameters = {}, Mark mark = {});

}  // namespace dblock::store::mariadb
