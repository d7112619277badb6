#include "app/run/splay.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "support/catch.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

// How many of a thousand hosts start in each tenth of ten minutes.
std::array<int, 10> starts_by_tenths(const std::string& key) {
  std::array<int, 10> starts{};
  for (int host = 0; host < 1000; ++host) {
    const Micros splay = splay_of("web" + std::to_string(host), key, 10min);
    REQUIRE(splay >= 0s);
    REQUIRE(splay <= 10min);
    ++starts.at(static_cast<std::size_t>(std::min(splay.count() / Micros(1min).count(), Micros::rep{9})));
  }
  return starts;
}

}  // namespace

// A hundred in each tenth; by chance alone fewer than 60 or more than 140 come once in 30,000 tenths.
TEST_CASE("a thousand hosts with one key spread evenly over the splay") {
  for (const auto* const key : {"k", "nightly-etl", "nightly-etm"}) {
    const auto starts = starts_by_tenths(key);
    CAPTURE(key, starts);
    CHECK(*std::ranges::min_element(starts) > 60);
    CHECK(*std::ranges::max_element(starts) < 140);
  }
}

TEST_CASE("the splay of a host and key is the same each time, and another for each host and key") {
  std::set<Micros> splays;
  for (const auto* const host : {"web1", "web2", "web11"}) {
    for (const auto* const key : {"a", "b", "a\nb"}) {
      splays.insert(splay_of(host, key, 1h));
      CHECK(splay_of(host, key, 1h) == splay_of(host, key, 1h));
    }
  }
  CHECK(splays.size() == 9);
  CHECK(splay_of("web1", "a", 0s) == 0s);
}

}  // namespace dblock::app
