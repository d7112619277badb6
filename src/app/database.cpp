#include "app/database.hpp"

#include <string>
#include <utility>

#include "base/log.hpp"

namespace dblock::app {

Result<store::Settings> settings_from(const store::SettingsSources& sources) {
  DBLOCK_TRY(store::ResolvedSettings resolved, store::resolve_settings(sources));
  for (const std::string& warning : resolved.warnings) log::warning(warning);
  return std::move(resolved.settings);
}

}  // namespace dblock::app
