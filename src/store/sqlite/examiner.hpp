// doctor on the embedded store.
#pragma once

#include <vector>

#include "store/config/settings.hpp"
#include "store/doctor.hpp"

namespace dblock::store::sqlite {

// Makes no store where there is none yet, and migrates none.
[[nodiscard]] std::vector<Finding> examine(const SqliteSettings& settings);

// Pure, for tests.
[[nodiscard]] Finding judge_space(std::uint64_t free_bytes);
[[nodiscard]] Finding judge_mode(unsigned mode);

}  // namespace dblock::store::sqlite
