// Catch2 as the tests use it, version 2 (Debian 12) and version 3 (Debian 13) alike: the test macros,
// generators, and matchers for text under the names they have in version 2.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

namespace Catch {

using Matchers::EndsWith;
using Matchers::StartsWith;
inline auto Contains(const std::string& part) {
  return Matchers::ContainsSubstring(part);
}

}  // namespace Catch
#else
#include <catch2/catch.hpp>
#endif
