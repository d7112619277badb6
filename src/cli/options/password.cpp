#include "cli/options/password.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace dblock::cli {

void mask_url_password(char* url) {
  const std::string_view text(url);
  const auto scheme = text.find("://");
  if (scheme == std::string_view::npos) return;
  const auto user = scheme + 3;
  // Search the last '@', because a password may hold '@' or '/' that should have been percent-encoded.
  const auto at = text.rfind('@');
  if (at == std::string_view::npos || at < user) return;
  const auto colon = text.find(':', user);
  if (colon == std::string_view::npos || colon > at) return;
  std::fill(url + colon + 1, url + at, 'x');
}

void hide_passwords(char** argv, const ParsedWords& parsed) {
  for (const auto& option : parsed.options) {
    if (option.name == "db") mask_url_password(argv[option.word + 1]);
  }
}

}  // namespace dblock::cli
