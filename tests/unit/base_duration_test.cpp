#include <string>

#include "base/duration.hpp"
#include "support/catch.hpp"

namespace dblock {
namespace {

using namespace std::chrono_literals;

std::string refusal(std::string_view text) {
  const auto parsed = parse_duration(text);
  REQUIRE_FALSE(parsed.has_value());
  CHECK(parsed.error().code == Errc::usage);
  return parsed.error().message;
}

TEST_CASE("durations are read with every unit and in combination") {
  CHECK(parse_duration("250ms").value() == 250ms);
  CHECK(parse_duration("30s").value() == 30s);
  CHECK(parse_duration("5m").value() == 5min);
  CHECK(parse_duration("2h").value() == 2h);
  CHECK(parse_duration("1d").value() == 24h);
  CHECK(parse_duration("1h30m").value() == 90min);
  CHECK(parse_duration("1.5s").value() == 1500ms);
  CHECK(parse_duration("7us").value() == 7us);
  CHECK(parse_duration("0").value() == 0s);
  CHECK(parse_duration("0s").value() == 0s);
  CHECK(parse_duration("36500d").value() == 36500 * 24h);
}

TEST_CASE("a bare number is told the spelling that was meant") {
  CHECK_THAT(refusal("10"), Catch::Contains("write 10s"));
  CHECK_THAT(refusal("1h30"), Catch::Contains("unit"));
  CHECK_THAT(refusal("1.5"), Catch::Contains("unit"));
}

TEST_CASE("negative overflowing and malformed durations are refused") {
  CHECK_THAT(refusal("-5s"), Catch::Contains("negative"));
  CHECK_THAT(refusal("36501d"), Catch::Contains("100 years"));
  CHECK_THAT(refusal("99999999999999999999s"), Catch::Contains("100 years"));
  CHECK_THAT(refusal("36500d1us"), Catch::Contains("100 years"));
  CHECK_THAT(refusal("0.5us"), Catch::Contains("microsecond"));
  CHECK_THAT(refusal("0.0000000001d"), Catch::Contains("microsecond"));
  for (const char* text : {"", "s", "5 s", " 5s", "5x", "1m1h", "1s1s", "1.s", ".5s", "1.2.3s", "+1s", "1S",
                           "5s\n", "forever"}) {
    INFO(text);
    refusal(text);
  }
}

TEST_CASE("a refusal shows hostile text escaped") {
  CHECK(refusal("5\x1b[31m").find('\x1b') == std::string::npos);
}

TEST_CASE("a formatted duration reads back as itself") {
  CHECK(format_duration(90000ms) == "1m30s");
  CHECK(format_duration(0s) == "0");
  CHECK(format_duration(1500ms) == "1.5s");
  CHECK(format_duration(Micros{166'666}) == "166.666ms");
  CHECK(format_duration(25h) == "1d1h");
  CHECK(format_duration(Micros::min()) == format_duration(-Micros::max()));
  for (const Micros value : {Micros{1}, Micros{999}, Micros{1000}, Micros{1'000'001}, Micros{59'999'999},
                             Micros{86'400'000'000}, Micros{86'460'000'050}}) {
    CHECK(parse_duration(format_duration(value)).value() == value);
  }
}

TEST_CASE("an age has at most two units and is rounded down") {
  CHECK(format_age(76h + 59min) == "3d4h");
  CHECK(format_age(125s) == "2m5s");
  CHECK(format_age(2h) == "2h");
  CHECK(format_age(1599ms) == "1.5s");
  CHECK(format_age(59999ms) == "59s");
  CHECK(format_age(250ms) == "250ms");
  CHECK(format_age(-1s) == "0s");
}

}  // namespace
}  // namespace dblock
