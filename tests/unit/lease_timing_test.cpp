#include <set>

#include "lease/backoff.hpp"
#include "lease/held.hpp"
#include "lease/lock_status.hpp"
#include "lease/owner_id.hpp"
#include "lease/timing.hpp"
#include "support/catch.hpp"

namespace dblock::lease {

using namespace std::chrono_literals;

TEST_CASE("defaults follow the TTL") {
  const auto two_minutes = make_timing({.ttl = 2min});
  REQUIRE(two_minutes);
  CHECK(two_minutes->heartbeat == 15s);
  CHECK(two_minutes->kill_grace == 4s);
  CHECK(two_minutes->margin == 3s);
  CHECK(two_minutes->slack == 6s);
  const auto six_seconds = make_timing({.ttl = 6s});
  REQUIRE(six_seconds);
  CHECK(six_seconds->heartbeat == 1s);
  CHECK(six_seconds->kill_grace == 1s);
  CHECK(six_seconds->margin == 600ms);
  CHECK(six_seconds->slack == 300ms);
  CHECK(make_timing({.ttl = 1s})->slack == 100ms);
  CHECK(network_timeout(6s) == 3s);
  CHECK(network_timeout(30s) == 5s);
  CHECK(network_timeout(2min) == 10s);
}

TEST_CASE("lengths that are worked out from the TTL are whole milliseconds, as messages show them") {
  const auto ten_seconds = make_timing({.ttl = 10s});
  REQUIRE(ten_seconds);
  CHECK(ten_seconds->heartbeat == 1666ms);
  CHECK(ten_seconds->kill_grace == 1666ms);
  const auto refused = make_timing({.ttl = 10s, .heartbeat = 4s});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Catch::Contains("kill-grace (1.666s)"));
}

TEST_CASE("default timings always satisfy the inequality", "[safety]") {
  for (Micros ttl = 1s; ttl <= 24h * 30; ttl = ttl * 11 / 10) {
    const auto t = make_timing({.ttl = ttl});
    REQUIRE(t);
    CHECK(2 * t->heartbeat + t->kill_grace + t->slack <= t->ttl);
  }
}

TEST_CASE("timings that one failed renewal would break are refused with both sides named", "[safety]") {
  const auto refused = make_timing({.ttl = 10s, .heartbeat = 4s, .kill_grace = 2s, .margin = 1s});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::usage);
  CHECK(refused.error().message.find("10s") != std::string::npos);
  CHECK(refused.error().message.find("4s") != std::string::npos);
  CHECK_THAT(refused.error().message,
             Catch::EndsWith("; to give a job that is asked to stop more time, --stop-grace is enough"));
  CHECK(make_timing({.ttl = 10s, .heartbeat = 3750ms, .kill_grace = 2s, .margin = 1s}));
}

TEST_CASE("timings out of range are refused") {
  CHECK_FALSE(make_timing({.ttl = 999ms}));
  CHECK_FALSE(make_timing({.ttl = 24h * 30 + 1s}));
  CHECK_FALSE(make_timing({.ttl = 10s, .heartbeat = 0s, .kill_grace = 1s, .margin = 1s}));
  CHECK_FALSE(make_timing({.ttl = 10s, .heartbeat = 1s, .kill_grace = 1s, .margin = 11s}));
  CHECK_FALSE(make_timing({.ttl = 10s, .heartbeat = Micros::max(), .kill_grace = 1s, .margin = 1s}));
}

TEST_CASE("the job is signalled, then killed, before the lease can end", "[safety]") {
  const Timing t = *make_timing({.ttl = 2min});
  const BootTime sent{1h};
  CHECK(t.signal_at(sent) == sent + 2min - 10s);
  CHECK(t.kill_at(sent) == sent + 2min - 6s);
  CHECK(t.expires(sent) == sent + 2min);
}

TEST_CASE("a renewal that is not answered leaves as much time for a second one, at every TTL") {
  for (Micros ttl = 1s; ttl <= 24h * 30; ttl = ttl * 11 / 10) {
    const Micros longest_heartbeat = (ttl - std::max<Micros>(100ms, ttl / 20) - ttl / 10) / 2;
    for (const Timing& t :
         {*make_timing({.ttl = ttl}),
          *make_timing({.ttl = ttl, .heartbeat = longest_heartbeat, .kill_grace = ttl / 10, .margin = 0s})}) {
      const BootTime sent{1h};
      const Micros once = renewal_timeout(t);
      CHECK(once > 0s);
      CHECK(once <= network_timeout(ttl));
      CHECK(sent + t.heartbeat + 2 * once <= t.signal_at(sent));
    }
  }
  CHECK(renewal_timeout(*make_timing({.ttl = 2min})) == 10s);
  CHECK(renewal_timeout(*make_timing({.ttl = 12s})) == 3s);
  CHECK(renewal_timeout(*make_timing({.ttl = 4s})) < 1500ms);
}

TEST_CASE("keys keep the rules of the contract") {
  CHECK(Key::parse("nightly-etl"));
  CHECK(Key::parse("á"));
  CHECK(Key::parse("a "));
  CHECK(Key::parse(std::string(255, 'k')));
  CHECK_FALSE(Key::parse(""));
  CHECK_FALSE(Key::parse(std::string(256, 'k')));
  CHECK_FALSE(Key::parse("a\nb"));
  CHECK_FALSE(Key::parse("a\x7f"));
  CHECK_FALSE(Key::parse("a\xc2\x85"));
  CHECK_FALSE(Key::parse("\xff"));
  CHECK(*Key::parse("a") != *Key::parse("A"));
  CHECK(*Key::parse("a") != *Key::parse("a "));
}

TEST_CASE("owner ids are readable, plain and unique", "[safety]") {
  const auto id = make_owner_id("web 01/\xc3\xa9", 4711, 0);
  CHECK(id.text.starts_with("web_01___-4711-19700101T000000Z-"));
  CHECK(id.text.size() == std::string("web_01___-4711-19700101T000000Z-").size() + 32);
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(make_owner_id("h", 1, 0).text);
  CHECK(seen.size() == 1000);
}

TEST_CASE("an owner id carries its process's mark, and a nested one is its outer one's and more") {
  const std::string digest = "0123456789abcdef";
  const auto id = make_owner_id("web-01", 4711, 0, digest);
  CHECK(id.text.starts_with("web-01-4711-19700101T000000Z-" + digest + "-"));
  CHECK(digest_of(id.text) == digest);
  CHECK(digest_of(make_owner_id("web-01", 4711, 0).text).empty());
  CHECK(digest_of("").empty());
  CHECK(digest_of("short").empty());
  CHECK_FALSE(is_nested(id));
  CHECK(outermost(id) == id);
  const auto nested = nested_owner_id(id);
  CHECK(is_nested(nested));
  CHECK(nested.text.starts_with(id.text + "/"));
  CHECK(nested.text.size() == id.text.size() + 33);
  CHECK(nested != nested_owner_id(id));
  CHECK(outermost(nested) == id);
  CHECK(nested_owner_id(nested).text.starts_with(id.text + "/"));
  CHECK(nested_owner_id(nested).text.size() == nested.text.size());
  CHECK(digest_of(nested.text) == digest);
}

TEST_CASE("DBLOCK_HELD is read back line by line, and what is no line of it is passed over") {
  const HeldLock first{*Key::parse("a b"), {"owner-1"}, "db1/locks"};
  const HeldLock second{*Key::parse("ü"), {"owner-2/0f"}, "sqlite:/tmp/a b.db"};
  const auto held = parse_held(to_line(first) + "\n" + to_line(second));
  REQUIRE(held.size() == 2);
  CHECK(held[0].key == first.key);
  CHECK(held[0].owner == first.owner);
  CHECK(held[0].store == first.store);
  CHECK(held[1].key == second.key);
  CHECK(held[1].owner == second.owner);
  CHECK(held[1].store == second.store);
  for (const auto* const text : {"", "\n\n", "a", "a\tb", "a\t\tc", "\tb\tc", "a\tb\t", "\xff\tb\tc"}) {
    INFO(text);
    CHECK(parse_held(text).empty());
  }
  CHECK(parse_held("nonsense\n" + to_line(first) + "\n\n").size() == 1);
}

TEST_CASE("backoff grows to its limit and stays within half and full of a step") {
  Backoff backoff(100ms, 1s, 2.0, 1);
  Micros step = 100ms;
  for (int i = 0; i < 20; ++i) {
    const Micros pause = backoff.next();
    CHECK(pause >= step / 2);
    CHECK(pause <= step);
    step = std::min<Micros>(step * 2, 1s);
  }
}

TEST_CASE("times are printed as RFC 3339 with microseconds") {
  CHECK(format_time({Micros{0}}) == "1970-01-01T00:00:00.000000Z");
  CHECK(format_time({Micros{1795264863000001}}) == "2026-11-21T12:41:03.000001Z");
}

TEST_CASE("a lock is grantable once lease, margin and cooldown are over", "[safety]") {
  LockStatus status;
  status.server_time = {100s};
  CHECK(status.grantable_at() == ServerTime{0s});
  status.owner = "x";
  status.expires_at = ServerTime{110s};
  status.margin = 3s;
  CHECK(status.grantable_at() == ServerTime{113s});
  status.hold_until = ServerTime{200s};
  CHECK(status.grantable_at() == ServerTime{200s});
}

}  // namespace dblock::lease
