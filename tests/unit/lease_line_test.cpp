// The rules of the line, on places that are made by hand.
#include "lease/line.hpp"

#include <algorithm>

#include "lease_fakes.hpp"
#include "support/catch.hpp"

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;
using Names = std::vector<std::string>;

Place waits(const std::string& owner, Micros since, Mode mode = Mode::exclusive, Line line = Line::fifo) {
  Place place = test::place_of(owner, since);
  place.sharing.mode = mode;
  place.line = line;
  return place;
}

LeaseRequest asks(const std::string& owner, std::optional<Micros> arrival, Mode mode = Mode::exclusive,
                  Line line = Line::fifo) {
  LeaseRequest request{.key = *Key::parse("k"), .owner = {owner}, .terms = {}, .holder = {}};
  if (arrival) request.arrival = ServerTime{*arrival};
  request.sharing.mode = mode;
  request.line = line;
  return request;
}

Names before(const std::vector<Place>& places, const LeaseRequest& request, const std::string& key = "k") {
  Names names;
  for (const auto* place : places_before(places, request, key)) names.push_back(place->owner.text);
  return names;
}

std::string leaves(const std::vector<Place>& places, const LeaseRequest& request) {
  const auto other = leaves_for(places, request);
  return other ? other->text : "nobody";
}

std::string position(const std::vector<Place>& places, const LeaseRequest& request) {
  const auto seen = position_of(places, request);
  return std::to_string(seen.number) + " of " + std::to_string(seen.of);
}

}  // namespace

TEST_CASE("a line is in the order of arrival, and of owner ids where two arrived together") {
  std::vector<Place> places{waits("c", 20s), waits("d", 10s), waits("b", 20s), waits("a", 30s)};
  sort_line(places);
  Names names;
  for (const auto& place : places) names.push_back(place.owner.text);
  CHECK(names == Names{"d", "b", "c", "a"});
}

TEST_CASE("a request's rank counts all that came before it in the line of this key") {
  auto elsewhere = waits("elsewhere", 5s);
  elsewhere.key = "l";
  const std::vector<Place> places{elsewhere, waits("reader", 10s, Mode::shared), waits("writer", 20s),
                                  waits("me", 30s, Mode::shared), waits("later", 40s)};
  CHECK(count_before(places, asks("me", 30s, Mode::shared), "k") == 2);
  CHECK(count_before(places, asks("me", 30s, Mode::shared), "l") == 1);
  CHECK(count_before(places, asks("new", std::nullopt), "k") == 4);
}

TEST_CASE("the places before a request are those that came before it, in the line of this key", "[safety]") {
  auto elsewhere = waits("elsewhere", 5s);
  elsewhere.key = "l";
  const std::vector<Place> places{elsewhere,        waits("first", 10s), waits("a", 20s),
                                  waits("me", 20s), waits("z", 20s),     waits("last", 30s)};
  CHECK(before(places, asks("me", 20s)) == Names{"first", "a"});
  CHECK(before(places, asks("me", 20s), "l") == Names{"elsewhere"});
  CHECK(before(places, asks("first", 10s)).empty());
  CHECK(before(places, asks("last", 30s)) == Names{"first", "a", "me", "z"});
}

TEST_CASE("a request that does not wait comes after all that do, but never after itself", "[safety]") {
  const std::vector<Place> places{waits("first", 10s), waits("me", 20s), waits("z", 30s)};
  CHECK(before(places, asks("stranger", std::nullopt)) == Names{"first", "me", "z"});
  CHECK(before(places, asks("me", std::nullopt)) == Names{"first", "z"});
}

TEST_CASE("a reader does not wait for readers, and for everybody else", "[safety]") {
  const std::vector<Place> places{waits("reader", 10s, Mode::shared), waits("writer", 11s),
                                  waits("slot", 12s, Mode::slot)};
  CHECK(before(places, asks("me", 20s, Mode::shared)) == Names{"writer", "slot"});
  CHECK(before(places, asks("me", 20s)) == Names{"reader", "writer", "slot"});
  CHECK(before(places, asks("me", 20s, Mode::slot)) == Names{"reader", "writer", "slot"});
}

TEST_CASE("a waiter that makes way for newer ones is passed by those that wait, and by nobody else") {
  const std::vector<Place> places{waits("newest", 10s, Mode::exclusive, Line::newest),
                                  waits("one", 11s, Mode::exclusive, Line::one)};
  CHECK(before(places, asks("me", 20s)) == Names{"one"});
  CHECK(before(places, asks("me", std::nullopt)) == Names{"newest", "one"});
}

TEST_CASE("by its policy a request leaves for the first before it, for the last behind it, or for nobody") {
  const std::vector<Place> places{waits("a", 10s), waits("b", 20s), waits("me", 30s), waits("c", 40s),
                                  waits("d", 50s)};
  const auto leaves_by = [&](Line line, Micros arrival = 30s) {
    return leaves(places, asks("me", arrival, Mode::exclusive, line));
  };
  CHECK(leaves_by(Line::fifo) == "nobody");
  CHECK(leaves_by(Line::one) == "a");
  CHECK(leaves_by(Line::newest) == "d");
  CHECK(leaves_by(Line::one, 5s) == "nobody");
  CHECK(leaves_by(Line::newest, 60s) == "nobody");
  CHECK(leaves({waits("me", 30s)}, asks("me", 30s, Mode::exclusive, Line::one)) == "nobody");
  CHECK(leaves({waits("me", 30s)}, asks("me", 30s, Mode::exclusive, Line::newest)) == "nobody");
}

// Of two runs that came in the same moment exactly one must leave.
TEST_CASE("of two that arrived together the owner ids decide which leaves") {
  const std::vector<Place> places{waits("a", 10s), waits("b", 10s)};
  CHECK(leaves(places, asks("a", 10s, Mode::exclusive, Line::one)) == "nobody");
  CHECK(leaves(places, asks("b", 10s, Mode::exclusive, Line::one)) == "a");
  CHECK(leaves(places, asks("a", 10s, Mode::exclusive, Line::newest)) == "b");
  CHECK(leaves(places, asks("b", 10s, Mode::exclusive, Line::newest)) == "nobody");
}

TEST_CASE("a place is counted among all that wait for the key, readers and makers of way among them") {
  auto elsewhere = waits("elsewhere", 5s);
  elsewhere.key = "l";
  const std::vector<Place> places{elsewhere, waits("reader", 10s, Mode::shared),
                                  waits("newest", 20s, Mode::exclusive, Line::newest), waits("me", 30s),
                                  waits("last", 40s)};
  CHECK(position(places, asks("me", 30s)) == "3 of 4");
  CHECK(position(places, asks("reader", 10s, Mode::shared)) == "1 of 4");
  CHECK(position(places, asks("last", 40s)) == "4 of 4");
}

TEST_CASE(
    "of several keys the place is told in the first one's line, and without a place as if it were there") {
  auto request = asks("me", 30s);
  request.any = {*Key::parse("l")};
  auto own = waits("me", 30s);
  own.key = "l";
  auto other = waits("other", 10s);
  other.key = "l";
  CHECK(position({waits("x", 10s), other, own}, request) == "2 of 2");
  CHECK(position({waits("x", 10s), other, waits("me", 30s), own}, request) == "2 of 2");
  CHECK(position({waits("x", 10s), waits("y", 20s)}, request) == "3 of 3");
  CHECK(position({}, request) == "1 of 1");
}

TEST_CASE("a lock is long free three seconds after all that kept it: release, margin, cooldown", "[safety]") {
  const ServerTime now{1000s};
  const auto at = [&](Micros ago) { return ServerTime{now.since_epoch - ago}; };
  LockStatus row;
  row.server_time = now;
  row.refused_until = at(3s);
  CHECK(long_free(row));
  row.refused_until = at(3s - 1us);
  CHECK_FALSE(long_free(row));

  LockStatus expired = row;
  expired.refused_until = std::nullopt;
  expired.owner = "other";
  expired.expires_at = at(8s);
  expired.margin = 5s;
  CHECK(long_free(expired));
  expired.margin = 5s + 1us;
  CHECK_FALSE(long_free(expired));
  expired.expires_at = ServerTime{now.since_epoch + 1s};
  CHECK_FALSE(long_free(expired));

  LockStatus cooled = row;
  cooled.refused_until = at(1h);
  cooled.hold_until = at(3s);
  CHECK(long_free(cooled));
  cooled.hold_until = at(2s);
  CHECK_FALSE(long_free(cooled));
}

}  // namespace dblock::lease
