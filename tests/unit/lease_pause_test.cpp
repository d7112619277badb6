// Pauses as values: what they cover, how they are shown; and the times that people write.
#include "lease/pause.hpp"
#include "support/catch.hpp"

namespace dblock::lease {

using namespace std::chrono_literals;

TEST_CASE("a pause covers its key, or the keys that start with its prefix") {
  CHECK(PauseScope{"a", false}.covers("a"));
  CHECK_FALSE(PauseScope{"a", false}.covers("ab"));
  CHECK(PauseScope{"a", true}.covers("a"));
  CHECK(PauseScope{"a", true}.covers("ab"));
  CHECK_FALSE(PauseScope{"ab", true}.covers("a"));
  CHECK(PauseScope{"", true}.covers("anything"));
}

TEST_CASE("two pauses meet where some key may be covered by both") {
  const auto meet = [](const PauseScope& one, const PauseScope& other) {
    CHECK(one.meets(other) == other.meets(one));
    return one.meets(other);
  };
  CHECK(meet({"a", true}, {"ab", true}));
  CHECK(meet({"a", true}, {"ab", false}));
  CHECK(meet({"", true}, {"a", false}));
  CHECK(meet({"a", false}, {"a", false}));
  CHECK_FALSE(meet({"a", false}, {"ab", false}));
  CHECK_FALSE(meet({"ab", true}, {"ac", true}));
  CHECK_FALSE(meet({"ab", true}, {"a", false}));
}

TEST_CASE("a pause is shown with its end in seconds, its maker and its reason, escaped") {
  const Pause pause{{"k", false}, {1h + 5us}, "op@desk", "new\x1b disks", {}};
  CHECK(display_pause(pause) == "paused until 1970-01-01T01:00:00Z by op@desk: new\\x1b disks");
  CHECK(display_pause({{"k", false}, {1h}, "", "", {}}) == "paused until 1970-01-01T01:00:00Z");
  CHECK(display_scope({"a\x1b", false}) == "lock \"a\\x1b\"");
  CHECK(display_scope({"a", true}) == "locks whose keys start with \"a\"");
  CHECK(display_scope({"", true}) == "all locks");
}

TEST_CASE("a time of RFC 3339 is read whatever its offset, and shown in UTC") {
  const auto shown = [](const char* text) {
    const auto time = parse_time(text);
    return time ? format_time(*time) : std::string("none");
  };
  CHECK(shown("2026-11-25T06:00:00Z") == "2026-11-25T06:00:00.000000Z");
  CHECK(shown("2026-11-25t06:00:00z") == "2026-11-25T06:00:00.000000Z");
  CHECK(shown("2026-11-25 06:00:00.5Z") == "2026-11-25T06:00:00.500000Z");
  CHECK(shown("2026-11-25T06:00:00.1234567Z") == "2026-11-25T06:00:00.123456Z");
  CHECK(shown("2026-11-25T00:30:00+01:00") == "2026-11-24T23:30:00.000000Z");
  CHECK(shown("2026-12-31T23:30:00-05:30") == "2027-01-01T05:00:00.000000Z");
  CHECK(shown("2028-02-29T00:00:00Z") == "2028-02-29T00:00:00.000000Z");
}

TEST_CASE("what is no time of RFC 3339, or no time at all, is not read as one") {
  for (const auto* const text : {"",
                                 "tomorrow",
                                 "2026-11-25",
                                 "2026-11-25T06:00:00",
                                 "2026-11-25T06:00Z",
                                 "2026-11-25T06:00:00 Z",
                                 "2026-11-25T06:00:00Z ",
                                 "2026-11-25T06:00:00.Z",
                                 "2026-11-25T06:00:00+0100",
                                 "2026-11-25T06:00:00+1:00",
                                 "2026-11-31T06:00:00Z",
                                 "2027-02-29T06:00:00Z",
                                 "2026-13-01T06:00:00Z",
                                 "2026-00-01T06:00:00Z",
                                 "2026-11-25T24:00:00Z",
                                 "2026-11-25T06:60:00Z",
                                 "2026-11-25T06:00:60Z",
                                 "2026-11-25T06:00:00+24:00",
                                 "0000-01-01T00:00:00+23:59",
                                 "9999-12-31T23:59:59-00:01",
                                 "-026-11-25T06:00:00Z",
                                 "2026--1-25T06:00:00Z",
                                 "26-11-25T06:00:00Z",
                                 "+026-11-25T06:00:00Z"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_time(text));
  }
}

}  // namespace dblock::lease
