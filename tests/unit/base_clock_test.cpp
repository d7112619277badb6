#include "base/clock.hpp"

#include <sys/resource.h>

#include "support/catch.hpp"

namespace dblock {
namespace {

using namespace std::chrono_literals;

// While it lives this process can open nothing.
class FullTable {
 public:
  FullTable() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit standard_ones{3, before_.rlim_max};  // poll() wants no more descriptors than the limit
    ::setrlimit(RLIMIT_NOFILE, &standard_ones);
  }
  ~FullTable() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FullTable(const FullTable&) = delete;
  FullTable& operator=(const FullTable&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("a wait needs no descriptor: where none is to be had it ends in time all the same") {
  SystemClock clock;
  WakeEvent wake;
  const BootTime until = clock.now() + 30ms;
  bool in_vain = false;
  bool woken = false;
  {
    const FullTable full;  // for the waits alone: what checks types at run time needs a descriptor, too
    in_vain = !clock.wait_until(until, wake);
    wake.raise();
    woken = clock.wait_until(clock.now() + 1h, wake);
  }
  CHECK(in_vain);
  CHECK(clock.now() >= until);
  CHECK(woken);
}

}  // namespace dblock
