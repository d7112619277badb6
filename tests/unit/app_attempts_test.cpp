#include "app/run/attempts.hpp"

#include "support/catch.hpp"

namespace dblock::app {

using namespace std::chrono_literals;

TEST_CASE("each pause before another attempt is twice the last, up to the longest") {
  const JobRetry retry{100, 2s, 10s};
  CHECK(pause_before_retry(retry, 1) == 2s);
  CHECK(pause_before_retry(retry, 2) == 4s);
  CHECK(pause_before_retry(retry, 3) == 8s);
  CHECK(pause_before_retry(retry, 4) == 10s);
  CHECK(pause_before_retry(retry, 1'000'000) == 10s);
  CHECK(pause_before_retry({100, 20s, 10s}, 1) == 10s);
  CHECK(pause_before_retry({100, 0s, 10s}, 5) == 0s);
}

}  // namespace dblock::app
