// The statements of sql/verbs/sqlite.
#pragma once

#include <string_view>

#include "store/verbs.hpp"

namespace dblock::store::sqlite {

// The statement, with `:name` for each parameter; empty if this store has no such statement.
[[nodiscard]] std::string_view sql(Verb verb);

}  // namespace dblock::store::sqlite
