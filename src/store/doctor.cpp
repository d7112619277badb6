#include "store/doctor.hpp"

#include <variant>

#include "store/mariadb/examiner.hpp"
#include "store/sqlite/examiner.hpp"

namespace dblock::store {

std::vector<Finding> examine(const Settings& settings) {
  if (const auto* embedded = std::get_if<SqliteSettings>(&settings)) return sqlite::examine(*embedded);
  return mariadb::examine(std::get<MariadbSettings>(settings));
}

}  // namespace dblock::store
