// The statements of sql/verbs/sqlite.
#pragma once

#include <string_view>

#include "store/verbs.hpp"

namespace dblock::store::sqlite {

// The statement with its parameters; empty where this store has none of that name.
[[nodiscard]] std::string_view sql(Verb verb);

}  // namespace dblock::store::sqlite
