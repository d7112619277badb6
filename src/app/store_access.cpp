#include "app/store_access.hpp"

#include <chrono>
#include <string>
#include <utility>

#include "base/log.hpp"

namespace dblock::app {

using namespace std::chrono_literals;

Result<store::Settings> settings_from(const store::SettingsSources& sources,
                                      std::vector<std::string>* unsaid) {
  DBLOCK_TRY(store::ResolvedSettings resolved, store::resolve_settings(sources));
  if (unsaid != nullptr) {
    *unsaid = std::move(resolved.warnings);
  } else {
    for (const std::string& warning : resolved.warnings) log::warning(warning);
  }
  return std::move(resolved.settings);
}

bool may_pass(const Error& error) {
  return error.code == Errc::unreachable || error.code == Errc::indeterminate || error.may_pass;
}

store::SessionOptions session_options(const lease::Timing& timing) {
  // The server drops an idle session, so a dead host's goes away. A living holder renews far more often.
  return {lease::network_timeout(timing.ttl), 2 * timing.ttl + 30s, false, lease::renewal_timeout(timing)};
}

}  // namespace dblock::app
