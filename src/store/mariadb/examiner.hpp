// doctor on MariaDB and MySQL: asks each host what judgements.hpp needs to know.
#pragma once

#include <vector>

#include "store/config/settings.hpp"
#include "store/doctor.hpp"

namespace dblock::store::mariadb {

[[nodiscard]] std::vector<Finding> examine(const MariadbSettings& settings);

}  // namespace dblock::store::mariadb
