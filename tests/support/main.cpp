// The main() of every suite. Catch must leave signals alone: what dblock does with them is what is tested.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/internal/catch_fatal_condition_handler.hpp>

// Version 3 is a library, and Debian's catches signals. These members take the place of the library's.
namespace Catch {
FatalConditionHandler::FatalConditionHandler() = default;
FatalConditionHandler::~FatalConditionHandler() = default;
void FatalConditionHandler::engage_platform() {}
void FatalConditionHandler::disengage_platform() noexcept {}
}  // namespace Catch

int main(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
#else
// Version 2 is told by CATCH_CONFIG_NO_POSIX_SIGNALS (tests/CMakeLists.txt).
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
