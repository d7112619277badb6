// The contract of the line: a request that waits has a place in it, and a lock goes to those who wait in
// their order.
#include <algorithm>
#include <mutex>
#include <thread>

#include "contract/stepped_database.hpp"
#include "contract/store_fixture.hpp"
#include "lease/acquire.hpp"
#include "lease/line.hpp"
#include "store/parameters.hpp"
#include "support/config.hpp"

namespace dblock::contract {
namespace {

// How long a place counts, unless a case says otherwise: longer than a case takes.
constexpr Micros k_place_counts = 75s;
// Longer than a slow machine takes for a case.
constexpr Micros k_slow_case = 10min;

// Releases the lease. The lock does not look free for long until age_free() says so, however slow the
// machine.
void free_just_now(StoreUnderTest& t, LockBook& store, const Lease& lease) {
  const auto gone = store.release(ref_to(lease), Actor::holder, {});
  if (!gone) FAIL(gone.error().message);
  CHECK(released(*gone));
  for (const Key& freed : keys_of(lease.key, lease.further_keys)) t.age(freed.bytes(), -k_slow_case, false);
}

// A request with a session of its own. It waits once it has a place.
class InLine {
 public:
  InLine(Fixture& t, LeaseRequest request)
      : under_test_(t.under_test.get()), store_(under_test_->open()), request_(std::move(request)) {}

  // Takes the request's places, or lets them count until then.
  void stand(Micros length = k_place_counts) {
    const auto arrival = store_->stand_in_line(request_, length, true);
    if (!arrival) FAIL(arrival.error().message);
    request_.arrival = *arrival;
  }
  [[nodiscard]] Answer tries() { return contract::acquire(*store_, request_); }
  // True where only those who come first refuse the request.
  [[nodiscard]] bool is_behind() {
    const auto answer = tries();
    const auto* const held = std::get_if<Held>(&answer);
    return held != nullptr && held->status.waited_for;
  }
  // Takes the lock, and gives up the places as dblock does.
  Lease takes() {
    Lease lease = contract::grant(*store_, request_);
    store_->hold(LeaseStore::RenewedBy::another);
    return lease;
  }
  void takes_and_releases() { free_just_now(*under_test_, *store_, takes()); }
  [[nodiscard]] LockBook& store() { return *store_; }
  [[nodiscard]] const LeaseRequest& request() const { return request_; }
  [[nodiscard]] ServerTime arrival() const { return request_.arrival.value(); }

 private:
  StoreUnderTest* under_test_;
  std::unique_ptr<LockBook> store_;
  LeaseRequest request_;
};

struct LineFixture : Fixture {
  // Has refused the request, and the request waits.
  InLine waits(LeaseRequest request, Micros length = k_place_counts) {
    InLine waiter(*this, std::move(request));
    REQUIRE(std::holds_alternative<Held>(waiter.tries()));
    waiter.stand(length);
    return waiter;
  }
  InLine waits_since(ServerTime arrival, LeaseRequest request) {
    request.arrival = arrival;
    return waits(std::move(request));
  }
  // Some minutes before the store's clock now.
  ServerTime minutes_ago(int minutes) {
    const auto listing = store->list({});
    if (!listing) FAIL(listing.error().message);
    return {listing->server_time.since_epoch - std::chrono::minutes(minutes)};
  }
  // The places that count in the lines of the request's locks.
  std::vector<Place> places(const LeaseRequest& request) {
    auto seen = store->see_line(request);
    if (!seen) FAIL(seen.error().message);
    return std::move(*seen);
  }
  Owners line(std::string_view name) {
    Owners found;
    for (const auto& place : places(asks(name, "nobody"))) found.push_back(place.owner.text);
    return found;
  }
  void frees(const Lease& lease) { free_just_now(*under_test, *store, lease); }
  // The lock, which was freed just now, has been free for as long as those who wait are waited for.
  void age_free(const std::string& name) { under_test->age(name, k_slow_case + k_line_patience, false); }
  // Deletes the request's places. RETURNS: how many there were, those that count no more among them.
  std::uint64_t delete_places(const LeaseRequest& request) {
    const auto database = under_test->open_database();
    const store::Database::Call call(*database, "a test");
    REQUIRE(call.open());
    const auto done = database->run(Verb::leave_line, store::place_parameters(request, {}));
    if (!done) FAIL(done.error().message);
    return done->changed;
  }
  // True where the request is refused although the lock is free.
  bool is_behind(const LeaseRequest& request) { return InLine(*this, request).is_behind(); }
  bool is_granted(const LeaseRequest& request) { return std::holds_alternative<Granted>(acquire(request)); }
};

LeaseRequest asks_for_any(std::vector<std::string> names, std::string owner) {
  auto request = asks(names.front(), std::move(owner));
  for (std::size_t i = 1; i < names.size(); ++i) request.any.push_back(key(names[i]));
  return request;
}

LeaseRequest asks_as_newest(std::string_view name, std::string owner) {
  auto request = asks(name, std::move(owner));
  request.line = Line::newest;
  return request;
}

std::vector<LeaseRequest> all_kinds(const std::string& owner) {
  return {asks("k", owner), reads("k", owner), takes_slot("k", owner, 1), asks_for_all({"k", "l"}, owner)};
}

// A holder that such a request waits for. Slots wait for slots alone.
LeaseRequest holds_against(const LeaseRequest& request, std::string owner) {
  auto holder = asks("k", std::move(owner));
  if (request.sharing.mode == Mode::slot) holder.sharing = request.sharing;
  return holder;
}

}  // namespace

STORE_CASE("a request without a place is refused while somebody waits, and only the waiter gets the lock") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  auto waiter = t.waits(asks("k", "waiter"));
  t.frees(holder);
  for (const auto& request : all_kinds("other")) {
    CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
    const LockStatus refused = t.conflict(request).status;
    CHECK(refused.key == "k");
    CHECK(refused.owner.empty());
    CHECK(refused.grantable_at() <= refused.server_time);
  }
  waiter.takes_and_releases();
  t.grant(asks("k", "other"));
}

STORE_CASE("a refusal tells that others come first, and a look tells that the lock is free") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  const auto waiter = t.waits(asks("k", "waiter"));
  CHECK_FALSE(t.conflict(asks("k", "other")).status.waited_for);
  t.frees(holder);
  for (const auto& request : all_kinds("other")) {
    CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
    CHECK(t.conflict(request).status.waited_for);
    const auto seen = t.store->look(request);
    REQUIRE(seen);
    CHECK(std::holds_alternative<Free>(*seen));
  }
}

STORE_CASE("a look at the lock and its line tells what both tell, whatever the lock was last") {
  LineFixture t;
  const auto request = asks("k", "me");
  const auto check_same = [&] {
    const auto apart = t.store->look(request);
    const auto together = t.store->look_in_line(request);
    if (!apart || !together) FAIL((apart ? together.error() : apart.error()).message);
    CHECK(together->answer.index() == apart->index());
    const auto* const held = std::get_if<Held>(&together->answer);
    if (held != nullptr) {
      const auto& row = std::get<Held>(*apart).status;
      CHECK(held->status.token == row.token);
      CHECK(held->status.owner == row.owner);
      CHECK(held->status.holder.command == row.holder.command);
      CHECK(held->status.expires_at == row.expires_at);
      CHECK(held->status.line_until == row.line_until);
      CHECK(held->status.pause.has_value() == row.pause.has_value());
    }
    const auto places = t.places(request);
    REQUIRE(together->places.size() == places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Place& seen = together->places[i];
      CHECK(seen.key == places[i].key);
      CHECK(seen.owner == places[i].owner);
      CHECK(seen.sharing == places[i].sharing);
      CHECK(seen.line == places[i].line);
      CHECK(seen.waiter.since == places[i].waiter.since);
      CHECK(seen.waiter.host == places[i].waiter.host);
      CHECK(seen.waiter.user == places[i].waiter.user);
      CHECK(seen.waiter.pid == places[i].waiter.pid);
      CHECK(seen.waits_elsewhere == places[i].waits_elsewhere);
    }
    return places;
  };
  CHECK(check_same().empty());  // no row
  auto first = asks("k", "holder");
  first.holder.command = "h\u00e9 \u4e16 '\"%";
  const Lease held = t.grant(first);
  CHECK(check_same().empty());
  auto named = asks_as_newest("k", std::string(255, 'o'));
  named.holder.host = "h\u00f6st";
  const auto newest = t.waits(named);
  const auto several = t.waits(asks_for_all({"k", "l"}, "several"));
  const auto pool = t.waits(asks_for_any({"k", "l"}, "pool"));
  const auto reader = t.waits(reads("k", "reader"));
  const auto places = check_same();
  REQUIRE(places.size() == 4);
  for (const auto& place : places) {
    CHECK(place.waits_elsewhere == (place.owner.text == "several" || place.owner.text == "pool"));
    CHECK(place.sharing.slots == 1);
  }
  REQUIRE(t.store->pause({{"k", false}, Micros{1h}, "me@host", ""}));
  CHECK(check_same().size() == 4);
  t.frees(held);
  CHECK(check_same().size() == 4);
}

STORE_CASE("those who wait get the lock in the order of arrival, and of owner ids where that is the same") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  const auto early = t.minutes_ago(3), late = t.minutes_ago(2);
  std::vector<InLine> waiters;
  waiters.push_back(t.waits_since(late, asks("k", "b")));
  waiters.push_back(t.waits(asks("k", "a")));
  waiters.push_back(t.waits_since(early, asks("k", "d")));
  waiters.push_back(t.waits_since(late, asks("k", "c")));
  CHECK(t.line("k") == Owners{"d", "b", "c", "a"});
  t.frees(holder);
  for (const std::string next : {"d", "b", "c", "a"}) {
    CAPTURE(next);
    const auto own = std::ranges::find(waiters, next, [](const auto& w) { return w.request().owner.text; });
    REQUIRE(own != waiters.end());
    for (auto& waiter : waiters)
      if (&waiter != &*own) CHECK(waiter.is_behind());
    own->takes_and_releases();
    waiters.erase(own);
  }
  CHECK(t.line("k").empty());
}

STORE_CASE("a request's own place never refuses it, whether the request names its arrival or not") {
  LineFixture t;
  for (const bool named : {true, false}) {
    for (auto request : all_kinds("waiter")) {
      CAPTURE(named, to_string(request.sharing.mode), request.further_keys.size());
      const Lease holder = t.grant(holds_against(request, "holder"));
      auto waiter = t.waits(request);
      t.frees(holder);
      if (named) request.arrival = waiter.arrival();
      CHECK(released(t.release(ref_to(t.grant(request)))));
      waiter.store().leave_line(waiter.request());
    }
  }
}

STORE_CASE("a request that stands in line again keeps its arrival, and its place counts for longer") {
  LineFixture t;
  t.grant(asks("k", "holder"));
  auto waiter = t.waits(asks("k", "waiter"), 20s);
  const auto first = t.places(waiter.request());
  REQUIRE(first.size() == 1);
  CHECK(first[0].key == "k");
  CHECK(first[0].owner.text == "waiter");
  CHECK(first[0].sharing == Sharing{});
  CHECK(first[0].line == Line::fifo);
  CHECK(first[0].waiter.host == "host");
  CHECK(first[0].waiter.pid == 4711);
  CHECK(first[0].waiter.user == "user");
  CHECK(first[0].waiter.since == waiter.arrival());
  CHECK(first[0].counts_until.since_epoch == waiter.arrival().since_epoch + 20s);
  waiter.stand(10min);
  const auto again = t.places(waiter.request());
  REQUIRE(again.size() == 1);
  CHECK(again[0].waiter.since == first[0].waiter.since);
  CHECK(again[0].counts_until.since_epoch > first[0].counts_until.since_epoch + 9min);
}

// As after a lost reply.
STORE_CASE("a request that does not know of its place is told the arrival of the place", "[all-of-dblock]") {
  LineFixture t;
  t.grant(asks("k", "holder"));
  const auto waiter = t.waits_since(t.minutes_ago(1), asks("k", "waiter"));
  InLine again(t, asks("k", "waiter"));
  again.stand();
  CHECK(again.arrival() == waiter.arrival());
  CHECK(t.line("k") == Owners{"waiter"});
}

STORE_CASE("a place that somebody has removed comes back where it was") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  auto first = t.waits(asks("k", "first"));
  auto second = t.waits(asks("k", "second"));
  const auto arrival = first.arrival();
  CHECK(t.delete_places(first.request()) == 1);
  CHECK(t.line("k") == Owners{"second"});
  first.stand();
  CHECK(first.arrival() == arrival);
  CHECK(t.line("k") == Owners{"first", "second"});
  t.frees(holder);
  CHECK(second.is_behind());
  first.takes_and_releases();
  second.takes_and_releases();
}

STORE_CASE("a place that is added is told of in the lock's row, whatever its request has seen there") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  auto first = t.waits(asks("k", "first"));
  t.frees(holder);
  const Lease lease = first.takes();
  // It was refused when the row still told of the first one's place.
  REQUIRE(t.store->stand_in_line(asks("k", "second"), k_place_counts, false));
  t.frees(lease);
  CHECK(t.is_behind(asks("k", "other")));
}

// A member of a replication group that lost the majority kept the reply back.
STORE_CASE("a place whose reply was lost and that counts no more is taken again with its arrival") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  const auto lost = t.store->stand_in_line(asks("k", "waiter"), Micros{1}, true);
  REQUIRE(lost);
  REQUIRE(test::wait_until([&] { return t.line("k").empty(); }));
  const auto again = t.store->stand_in_line(asks("k", "waiter"), k_place_counts, true);
  if (!again) FAIL(again.error().message);
  CHECK(*again == *lost);
  CHECK(t.line("k") == Owners{"waiter"});
}

STORE_CASE("a reader's row does not tell whether somebody waits, so a writer has its place told of",
           "[all-of-dblock]") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  auto reader = t.waits(reads("k", "reader"));
  t.frees(holder);
  reader.takes();
  const auto refused = t.conflict(asks("k", "writer"));
  CHECK(refused.status.slot > 0);
  CHECK_FALSE(refused.status.line_until);
}

STORE_CASE("a request that leaves the line refuses nobody any more") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  auto waiter = t.waits(asks_for_all({"k", "l"}, "waiter"));
  waiter.store().leave_line(waiter.request());
  CHECK(t.places(waiter.request()).empty());
  CHECK(t.delete_places(waiter.request()) == 0);
  t.frees(holder);
  t.grant(asks("k", "other"));
  t.grant(asks("l", "other"));
}

STORE_CASE("a place that counts no more refuses nobody") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  const auto dead = t.waits(asks("k", "dead"), 100ms);
  REQUIRE(test::wait_until([&] { return t.line("k").empty(); }));
  t.frees(holder);
  for (const auto& request : all_kinds("other")) {
    CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
    CHECK(released(t.release(ref_to(t.grant(request)))));
  }
}

// dblock writes no place for more than an hour.
STORE_CASE("a place that counts for longer than any can, after a step of the clock, refuses nobody") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  auto waiter = t.waits(asks("k", "waiter"), 2h);
  CHECK(t.line("k").empty());
  t.frees(holder);
  for (const auto& request : all_kinds("other")) {
    CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
    CHECK(released(t.release(ref_to(t.grant(request)))));
  }
  waiter.stand();
  t.conflict(asks("k", "other"));
}

STORE_CASE("a lock that was free for three seconds goes to whoever asks, and not a moment earlier") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  const auto dead = t.waits(asks("k", "dead"));
  CHECK(released(t.release(ref(holder))));
  t.under_test->age("k", k_line_patience - 200ms, false);
  REQUIRE(test::wait_until([&] { return t.is_granted(asks("k", "other")); }));
  const LockStatus row = t.row("k");
  REQUIRE((row.last && row.last->released_at));
  const Micros was_free = row.acquired_at->since_epoch - row.last->released_at->since_epoch;
  CHECK(was_free + t.under_test->clock_jitter() >= k_line_patience);
}

// As when a reap has forgotten the row.
STORE_CASE("a lock without a row is listed with its waiters, as a free one that is for others") {
  LineFixture t;
  for (const auto* const name : {"a", "k", "z"}) CHECK(released(t.release(ref(t.grant(asks(name, "o"))))));
  const Lease holder = t.grant(asks("m", "o"));
  InLine first(t, asks("k", "first")), second(t, asks("k", "second")), other(t, asks("q", "other"));
  for (auto* const waiter : {&first, &second, &other}) waiter->stand();
  t.under_test->delete_row("k");
  const auto seen = t.rows({.keys = {key("k")}, .held_only = false});
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].key == "k");
  CHECK(seen[0].state == State::free);
  CHECK(seen[0].owner.empty());
  CHECK(seen[0].token.value == 0);
  REQUIRE(seen[0].waiters);
  REQUIRE(seen[0].waiters->size() == 2);
  CHECK(seen[0].waiters->front().since == first.arrival());
  CHECK(seen[0].waiters->back().since == second.arrival());
  CHECK(seen[0].grantable_at() <= seen[0].server_time);
  CHECK_FALSE(long_free(seen[0]));
  CHECK(t.listed({.keys = {}, .held_only = false}) == Owners{"a", "k", "m", "q", "z"});
  CHECK(t.listed({.keys = {}, .prefix = "k", .held_only = false}) == Owners{"k"});
  CHECK(t.listed({.keys = {key("k"), key("z")}, .held_only = false}) == Owners{"k", "z"});
  CHECK(t.listed({.keys = {key("k"), key("z")}, .prefix = "z", .held_only = false}) == Owners{"z"});
  CHECK(t.listed({.keys = {}, .held_only = false, .at_most = 2}) == Owners{"a", "k"});
  CHECK(t.listed({.keys = {}, .held_only = true}) == Owners{"m"});
  CHECK(t.listed({.keys = {key("k")}, .held_only = true}).empty());
  CHECK(t.is_behind(asks("k", "late")));
  first.takes_and_releases();
}

STORE_CASE("a lock whose cooldown outlives its lease counts as free from the end of the cooldown") {
  LineFixture t;
  t.grant(asks("k", "holder", Kind::run, 10s, 1s));
  const auto waiter = t.waits(asks("k", "waiter"), 10min);
  t.under_test->age("k", 5min, false);
  const auto listed = [&] { return t.rows({.keys = {key("k")}, .held_only = false}).front(); };
  const auto looked = [&] {
    auto seen = std::get<Free>(t.store->look(asks("k", "other")).value());
    return std::move(seen.status.value());
  };
  const auto holds_for = [&](Micros from_now) {
    t.under_test->set_promise("k", StoreUnderTest::Promise::hold_until, from_now);
  };
  holds_for(1h);
  CHECK(listed().state == State::expired);
  CHECK(listed().grantable_at() > listed().server_time);
  CHECK_FALSE(t.conflict(asks("k", "other")).status.waited_for);
  const BootTime before = BootClock::now();
  holds_for(Micros{0});
  const auto in_listing = listed(), in_look = looked();
  const auto tried = t.acquire(asks("k", "other"));
  if (BootClock::now() - before < k_line_patience) {
    CHECK(in_listing.state == State::expired);
    CHECK_FALSE(long_free(in_listing));
    CHECK_FALSE(long_free(in_look));
    CHECK(std::holds_alternative<Held>(tried));
  }
  holds_for(-k_line_patience);
  CHECK(long_free(listed()));
  CHECK(long_free(looked()));
  t.grant(asks("k", "other"));
}

STORE_CASE("a lock that was held for long goes to the waiter when it is released, and not to whoever asks") {
  const auto holder = GENERATE(asks("k", "holder"), reads("k", "holder"), takes_slot("k", "holder", 1));
  CAPTURE(to_string(holder.sharing.mode));
  LineFixture t;
  const Lease lease = t.grant(holder);
  t.under_test->age("k", 30s, false);
  CHECK(renewed(t.renew(ref_to(lease))));
  auto request = holder;
  request.owner.text = "waiter";
  if (holder.sharing.mode == Mode::shared) request.sharing = {};
  auto waiter = t.waits(request);
  CHECK(released(t.release(ref_to(lease))));
  CHECK_FALSE(long_free(t.rows({{key("k")}, {}, false}).front()));
  for (const auto& other : all_kinds("other")) {
    CAPTURE(to_string(other.sharing.mode), other.further_keys.size());
    t.conflict(other);
  }
  waiter.takes_and_releases();
}

STORE_CASE("who gets a lock that was free for long removes the places that it passed, which may come back") {
  const auto request = GENERATE(asks("k", "other"), reads("k", "other"), asks_for_all({"k", "l"}, "other"));
  CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  auto frozen = t.waits(asks("k", "frozen"));
  auto behind = t.waits(request);
  t.frees(holder);
  CHECK(behind.is_behind());
  t.age_free("k");
  const Lease lease = behind.takes();
  CHECK(t.line("k").empty());
  frozen.stand();
  CHECK(t.line("k") == Owners{"frozen"});
  t.frees(lease);
  CHECK(t.is_behind(asks("k", "next")));
  frozen.takes_and_releases();
}

STORE_CASE("a request without a place that gets a lock which was free for long removes what it passed") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  const auto dead = t.waits(asks("k", "dead"));
  t.frees(holder);
  t.age_free("k");
  InLine other(t, asks("k", "other"));
  other.takes_and_releases();
  CHECK(t.line("k").empty());
  t.grant(asks("k", "next"));
}

STORE_CASE("a request that passes places leaves those in line who came after its grant") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  const auto dead = t.waits(asks("k", "dead"));
  t.frees(holder);
  t.age_free("k");
  InLine other(t, asks("k", "other"));
  contract::grant(other.store(), other.request());
  const auto late = t.waits(asks("k", "late"));
  other.store().hold(LeaseStore::RenewedBy::another);
  CHECK(t.line("k") == Owners{"late"});
}

STORE_CASE("a pool's request removes the places that it passed in the line of the member that it gets",
           "[all-of-dblock]") {
  LineFixture t;
  const Lease on_a = t.grant(asks("a", "holder"));
  t.grant(asks("b", "holder"));
  const auto dead = t.waits(asks("a", "dead"));
  const auto behind = t.waits(asks("b", "behind"));
  auto pool = t.waits(asks_for_any({"a", "b"}, "pool"));
  t.frees(on_a);
  t.age_free("a");
  CHECK(pool.takes().key == key("a"));
  CHECK(t.line("a").empty());
  CHECK(t.line("b") == Owners{"behind"});
}

STORE_CASE("a lease that nobody released counts as free from the end of its margin") {
  const auto request = GENERATE(asks("k", "gone", Kind::run, 10s, 10s), reads("k", "gone"));
  CAPTURE(to_string(request.sharing.mode));
  LineFixture t;
  auto short_lived = request;
  short_lived.terms = {10s, 10s, 1s};
  t.grant(short_lived);
  const auto dead = t.waits(asks("k", "dead"));
  t.under_test->age("k", 20s, false);
  t.conflict(asks("k", "other"));
  t.under_test->age("k", k_line_patience, false);
  t.grant(asks("k", "other"));
}

STORE_CASE("a cooldown keeps the order: the lock counts as free from its end") {
  LineFixture t;
  auto request = asks("k", "holder");
  request.promises.min_hold = 1h;
  CHECK(released(t.release(ref(t.grant(request)))));
  auto waiter = t.waits(asks("k", "waiter"));
  t.under_test->age("k", 1h, false);
  waiter.stand();
  for (const auto& other : all_kinds("other")) {
    CAPTURE(to_string(other.sharing.mode), other.further_keys.size());
    CHECK(t.conflict(other).status.state == State::free);
  }
  t.under_test->age("k", k_line_patience, false);
  t.grant(asks("k", "other"));
}

STORE_CASE("a cooldown that somebody ends keeps the order: the lock counts as free from then") {
  LineFixture t;
  auto request = asks("k", "holder");
  request.promises.min_hold = 1h;
  const Lease lease = t.grant(request);
  CHECK(released(t.release(ref(lease))));
  t.under_test->age("k", 3 * k_slow_case, false);
  auto waiter = t.waits(asks("k", "waiter"));
  CHECK(std::holds_alternative<Revoked>(t.revoke("k", lease.token)));
  t.under_test->age("k", -k_slow_case, false);
  CHECK(t.is_behind(asks("k", "other")));
  waiter.takes();
}

STORE_CASE("a writer that waits is served before readers that come later, even when no reader is left") {
  LineFixture t;
  const Lease reader = t.grant(reads("k", "reader-1"));
  auto writer = t.waits(asks("k", "writer"));
  t.conflict(reads("k", "reader-2"));
  CHECK(renewed(t.renew(ref_to(reader))));  // those who are in stay
  t.frees(reader);
  t.conflict(reads("k", "reader-2"));
  writer.takes_and_releases();
  t.grant(reads("k", "reader-2"));
  t.grant(reads("k", "reader-3"));
}

STORE_CASE("a reader that came before a writer joins the readers, and one that came later waits for it",
           "[all-of-dblock]") {
  LineFixture t;
  const Lease before = t.grant(asks("k", "before"));
  auto first = t.waits(reads("k", "reader-1"));
  auto second = t.waits(reads("k", "reader-2"));
  auto writer = t.waits(asks("k", "writer"));
  auto third = t.waits(reads("k", "reader-3"));
  t.frees(before);
  CHECK(writer.is_behind());
  CHECK(third.is_behind());
  const Lease two = second.takes();  // readers do not wait for readers
  CHECK(third.is_behind());
  const Lease one = first.takes();
  CHECK(owners(t) == Owners{"reader-2", "reader-1"});
  CHECK(third.is_behind());
  t.frees(one);
  t.frees(two);
  CHECK(third.is_behind());
  const Lease written = writer.takes();
  t.frees(written);
  third.takes_and_releases();
}

STORE_CASE("a reader without a place joins the readers while only readers wait", "[all-of-dblock]") {
  LineFixture t;
  const Lease writer = t.grant(asks("k", "writer"));
  auto waiter = t.waits(reads("k", "reader-1"));
  t.frees(writer);
  t.grant(reads("k", "reader-2"));
  waiter.takes();
  CHECK(owners(t) == Owners{"reader-2", "reader-1"});
}

STORE_CASE("of the free slots as many are for others as wait before", "[all-of-dblock]") {
  LineFixture t;
  std::vector<Lease> held;
  for (const auto* const owner : {"holder-1", "holder-2", "holder-3"})
    held.push_back(t.grant(takes_slot("k", owner, 3)));
  t.under_test->age("k", 10s, false);
  auto first = t.waits(takes_slot("k", "first", 3));
  auto second = t.waits(takes_slot("k", "second", 3));
  CHECK(released(t.release(ref_to(held[0]))));
  CHECK(second.is_behind());
  CHECK(t.is_behind(takes_slot("k", "other", 3)));
  t.frees(held[1]);
  CHECK(t.is_behind(takes_slot("k", "other", 3)));
  const Lease two = second.takes();  // the other one is the first one's
  CHECK(t.is_behind(takes_slot("k", "other", 3)));
  t.frees(held[2]);
  t.grant(takes_slot("k", "other", 3));
  CHECK(t.line("k") == Owners{"first"});  // it was not passed
  const Lease one = first.takes();
  CHECK(one.slot != two.slot);
  CHECK(owners(t).size() == 3);
  t.conflict(takes_slot("k", "last", 3));
}

STORE_CASE("a slot that was free for three seconds goes to whoever asks, and the passed places are removed",
           "[all-of-dblock]") {
  LineFixture t;
  const Lease first = t.grant(takes_slot("k", "holder-1", 2));
  t.grant(takes_slot("k", "holder-2", 2));
  const auto frozen = t.waits(takes_slot("k", "frozen", 2));
  t.frees(first);
  CHECK(t.is_behind(takes_slot("k", "other", 2)));
  t.under_test->age_hold("k", first.slot, k_slow_case + k_line_patience);
  InLine other(t, takes_slot("k", "other", 2));
  CHECK(other.takes().slot == first.slot);
  CHECK(t.line("k").empty());
}

STORE_CASE("slots that are asked for no more let nobody pass those who wait", "[all-of-dblock]") {
  LineFixture t;
  for (const auto& lease : {t.grant(takes_slot("k", "wide-1", 3)), t.grant(takes_slot("k", "wide-2", 3)),
                            t.grant(takes_slot("k", "wide-3", 3))})
    CHECK(released(t.release(ref_to(lease))));
  const Lease held = t.grant(takes_slot("k", "holder-1", 2));
  t.grant(takes_slot("k", "holder-2", 2));
  t.under_test->age_hold("k", 3, k_slow_case + k_line_patience);
  auto waiter = t.waits(takes_slot("k", "waiter", 2));
  t.frees(held);
  CHECK(t.is_behind(takes_slot("k", "other", 2)));
  CHECK(t.line("k") == Owners{"waiter"});
  CHECK(waiter.takes().slot == held.slot);
}

STORE_CASE("a request for several keys has one arrival, and a place in the line of each", "[all-of-dblock]") {
  LineFixture t;
  const Lease holder = t.grant(asks("b", "holder"));
  CHECK(released(t.release(ref(t.grant(asks("a", "before"))))));
  auto early = t.waits(asks_for_all({"a", "b"}, "early"));
  auto late = t.waits(asks("b", "late"));
  const auto places = t.places(early.request());
  REQUIRE(places.size() == 3);
  for (const auto& place : places)
    CHECK(place.waiter.since == (place.owner.text == "late" ? late.arrival() : early.arrival()));
  CHECK(t.line("a") == Owners{"early"});
  CHECK(t.line("b") == Owners{"early", "late"});
  // One of the keys is free, and kept for the request.
  CHECK(t.is_behind(asks("a", "other")));
  t.frees(holder);
  CHECK(late.is_behind());
  const auto behind = t.conflict(asks_for_all({"b", "c"}, "other")).status;
  CHECK(behind.waited_for);
  CHECK(behind.key == "b");
  early.takes_and_releases();
  CHECK(t.line("a").empty());
  CHECK(t.line("b") == Owners{"late"});
  late.takes_and_releases();
}

STORE_CASE("of several places of a request those that somebody has removed come back, all with its arrival",
           "[all-of-dblock]") {
  LineFixture t;
  t.grant(asks("a", "holder"));
  auto waiter = t.waits(asks_for_all({"a", "b", "c"}, "waiter"));
  const auto arrival = waiter.arrival();
  CHECK(t.delete_places(asks("b", "waiter")) == 1);
  waiter.stand();
  CHECK(waiter.arrival() == arrival);
  const auto places = t.places(waiter.request());
  CHECK(places.size() == 3);
  for (const auto& place : places) CHECK(place.waiter.since == arrival);
}

STORE_CASE("a pool's request stands in the line of each member, and gives up all places when it has one",
           "[all-of-dblock]") {
  LineFixture t;
  const Lease on_a = t.grant(asks("a", "holder"));
  const Lease on_b = t.grant(asks("b", "holder"));
  auto pool = t.waits(asks_for_any({"a", "b"}, "pool"));
  auto late = t.waits(asks("b", "late"));
  CHECK(t.line("a") == Owners{"pool"});
  CHECK(t.line("b") == Owners{"pool", "late"});
  t.frees(on_b);
  CHECK(late.is_behind());
  const Lease lease = pool.takes();
  CHECK(lease.key == key("b"));
  CHECK(t.line("a").empty());
  CHECK(t.line("b") == Owners{"late"});
  t.frees(on_a);
  t.grant(asks("a", "other"));
  t.frees(lease);
  late.takes();
}

STORE_CASE("a pool's request takes a member for which nobody waits before one for which somebody does",
           "[all-of-dblock]") {
  LineFixture t;
  const Lease holder = t.grant(asks("a", "holder"));
  const auto waiter = t.waits(asks("a", "waiter"));
  t.frees(holder);
  CHECK(t.grant(asks_for_any({"a", "b"}, "pool-1")).key == key("b"));
  const auto refused = t.conflict(asks_for_any({"a", "b"}, "pool-2")).status;
  CHECK(refused.key == "a");
  CHECK(refused.waited_for);
}

STORE_CASE("a look for a pool tells of the request's own grant, though other members are free",
           "[all-of-dblock][safety]") {
  LineFixture t;
  for (const auto* const name : {"a", "b", "c"}) CHECK(released(t.release(ref(t.grant(asks(name, "past"))))));
  const auto pool = asks_for_any({"a", "b", "c"}, "pool");
  const auto taken = t.grant(asks("a", "holder"));
  t.grant(pool);
  t.frees(taken);
  const auto seen = t.store->look(pool);
  if (!seen) FAIL(seen.error().message);
  REQUIRE(std::holds_alternative<Granted>(*seen));
  CHECK(std::get<Granted>(*seen).lease.key == key("b"));
}

STORE_CASE("a look for a pool tells of a free member for which nobody else waits, if there is one",
           "[all-of-dblock]") {
  LineFixture t;
  const Lease on_a = t.grant(asks("a", "holder"));
  const Lease on_b = t.grant(asks("b", "holder"));
  const auto waiter = t.waits(asks("a", "waiter"));
  auto pool = t.waits(asks_for_any({"a", "b"}, "pool"));
  const auto member = [&] {
    const auto seen = pool.store().look(pool.request());
    if (!seen) FAIL(seen.error().message);
    return std::get<Free>(*seen).status.value().key;
  };
  t.frees(on_a);
  CHECK(member() == "a");
  t.frees(on_b);
  CHECK(member() == "b");
  CHECK(pool.takes().key == key("b"));
}

STORE_CASE("a place counts before its lock has been granted for the first time") {
  const auto request = GENERATE(asks("b", "other"), reads("b", "other"), takes_slot("b", "other", 1),
                                asks_for_all({"b", "c"}, "other"));
  CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
  LineFixture t;
  const Lease holder = t.grant(asks("a", "holder"));
  auto waiter = t.waits(asks_for_all({"a", "b"}, "waiter"));
  CHECK(t.is_behind(request));
  t.frees(holder);
  waiter.takes_and_releases();
  t.grant(request);
}

STORE_CASE("a waiter that leaves for newer ones refuses no later waiter, but a request that does not wait",
           "[all-of-dblock]") {
  const auto later = GENERATE(asks("k", "later"), reads("k", "later"));
  CAPTURE(to_string(later.sharing.mode));
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  const auto newest = t.waits(asks_as_newest("k", "newest"));
  CHECK(t.places(newest.request()).front().line == Line::newest);
  t.frees(holder);
  for (const auto& request : all_kinds("other")) CHECK(t.is_behind(request));
  t.waits(later).takes_and_releases();
}

STORE_CASE("a waiter that leaves for newer ones is refused a lock that was granted to one that came later",
           "[all-of-dblock]") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  auto newest = t.waits_since(t.minutes_ago(3), asks_as_newest("k", "newest"));
  auto later = t.waits_since(t.minutes_ago(2), asks("k", "later"));
  t.frees(holder);
  const Lease lease = later.takes();
  CHECK(t.row("k").arrived_at == later.arrival());
  t.frees(lease);
  const bool stands = GENERATE(true, false);  // its place was removed as one that was passed
  CAPTURE(stands);
  if (stands) newest.stand();
  CHECK(newest.is_behind());
  t.age_free("k");
  CHECK(newest.is_behind());
  t.grant(asks_as_newest("k", "latest"));
}

STORE_CASE("a waiter that leaves for older ones has its place like any other", "[all-of-dblock]") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  auto request = asks("k", "one");
  request.line = Line::one;
  auto one = t.waits(request);
  auto later = t.waits(asks("k", "later"));
  CHECK(t.places(request).front().line == Line::one);
  t.frees(holder);
  CHECK(later.is_behind());
  CHECK(t.is_behind(asks("k", "other")));
  one.takes_and_releases();
  later.takes_and_releases();
}

STORE_CASE("a lease's row tells when its request arrived") {
  LineFixture t;
  for (const auto& request : all_kinds("waiter")) {
    CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
    const Lease holder = t.grant(holds_against(request, "holder"));
    CHECK(t.row("k").arrived_at == t.row("k").acquired_at);
    auto waiter = t.waits_since(t.minutes_ago(1), request);
    CHECK(released(t.release(ref_to(holder))));
    const Lease lease = waiter.takes();
    CHECK(t.row("k").owner == "waiter");
    CHECK(t.row("k").arrived_at == waiter.arrival());
    CHECK(released(t.release(ref_to(lease))));
  }
}

STORE_CASE("revoking on behalf of a request spares every lease whose own request arrived later",
           "[all-of-dblock]") {
  const auto request = GENERATE(from_range(all_kinds("holder")));
  CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
  LineFixture t;
  const Lease before = t.grant(holds_against(request, "before"));
  auto waiter = t.waits_since(t.minutes_ago(2), request);
  t.frees(before);
  const Lease lease = waiter.takes();
  const auto revoke = [&](std::optional<ServerTime> arrival) {
    auto outcome = t.store->revoke(key("k"), lease.token, "op@desk", arrival);
    if (!outcome) FAIL(outcome.error().message);
    return std::move(*outcome);
  };
  CHECK(refused(revoke(t.minutes_ago(3))) == ForceRefused::Why::came_later);
  CHECK_FALSE(t.row("k").revoked_at);
  CHECK(renewed(t.renew(ref_to(lease))));
  CHECK(std::holds_alternative<Revoked>(revoke(t.minutes_ago(1))));
  CHECK(t.row("k").revoked_at);
  CHECK(std::holds_alternative<Revoked>(revoke(std::nullopt)));
}

STORE_CASE("the last waiter's grant ends the line, and the next grant takes one statement again",
           "[all-of-dblock]") {
  LineFixture t;
  const Lease holder = t.grant(asks("k", "holder"));
  auto first = t.waits(asks("k", "first"));
  auto second = t.waits(asks("k", "second"), 10min);
  const auto until = [](const InLine& waiter, Micros length) {
    return waiter.arrival().since_epoch + length;
  };
  CHECK(t.row("k").line_until->since_epoch >= until(second, 10min));
  CHECK(released(t.release(ref(holder))));
  const Lease lease = first.takes();
  REQUIRE(t.row("k").line_until);
  CHECK(t.row("k").line_until->since_epoch >= until(second, 10min));
  CHECK(released(t.release(ref(lease))));
  const Lease last = second.takes();
  CHECK_FALSE(t.row("k").line_until);
  CHECK(released(t.release(ref(last))));
  std::vector<Verb> statements;
  const auto store = open_stepped(*t.under_test, [&](Verb verb) -> std::optional<store::Effect> {
    statements.push_back(verb);
    return std::nullopt;
  });
  contract::grant(*store, asks("k", "other"));
  CHECK(statements == std::vector{Verb::grant});
}

STORE_CASE("the grant of the last waiter for readers' or several locks ends their lines") {
  const auto request = GENERATE(from_range(all_kinds("waiter")));
  CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
  LineFixture t;
  const Lease holder = t.grant(holds_against(request, "holder"));
  auto waiter = t.waits(request);
  const auto own_row = [&] {
    return t.rows({.keys = {key("k")}, .held_only = false, .keys_only = true}).at(0);
  };
  CHECK(own_row().line_until);
  t.frees(holder);
  const Lease lease = waiter.takes();
  CHECK_FALSE(own_row().line_until);
  t.frees(lease);
  CHECK_FALSE(t.is_behind(asks("k", "other")));
}

STORE_CASE("a listing names those who wait for each lock, in their order, whatever kind the lock is",
           "[all-of-dblock]") {
  LineFixture t;
  t.grant(asks("alone", "holder"));
  t.grant(reads("read", "reader-1"));
  t.grant(reads("read", "reader-2"));
  t.grant(takes_slot("slots", "holder", 1));
  t.grant(asks("unwanted", "holder"));
  const auto with_pid = [](LeaseRequest request, std::uint32_t pid) {
    request.holder.pid = pid;
    request.holder.host = "host-" + std::to_string(pid);
    return request;
  };
  const auto second = t.waits(with_pid(asks("alone", "second"), 2));
  const auto first = t.waits_since(t.minutes_ago(1), with_pid(asks_for_all({"alone", "read"}, "first"), 1));
  const auto third = t.waits(with_pid(takes_slot("slots", "third", 1), 3));
  const auto ended = t.waits(with_pid(asks("unwanted", "ended"), 4), 1us);
  const bool from_primary = GENERATE(true, false);
  CAPTURE(from_primary);
  Selection selection;
  selection.from_primary = from_primary;
  const auto rows = t.rows(selection);
  REQUIRE(rows.size() == 5);
  const auto pids = [&](const LockStatus& row) {
    std::vector<std::uint32_t> found;
    for (const auto& waiter : row.waiters.value()) found.push_back(waiter.pid);
    return found;
  };
  using Pids = std::vector<std::uint32_t>;
  CHECK(pids(rows[0]) == Pids{1, 2});
  CHECK(rows[0].waiters->front().host == "host-1");
  CHECK(rows[0].waiters->front().user == "user");
  CHECK(rows[0].waiters->front().since == first.arrival());
  CHECK(rows[0].waiters->back().since == second.arrival());
  CHECK(pids(rows[1]) == Pids{1});  // each reader's row
  CHECK(pids(rows[2]) == Pids{1});
  CHECK(pids(rows[3]) == Pids{3});
  CHECK(rows[4].key == "unwanted");
  CHECK(pids(rows[4]) == Pids{});
}

STORE_CASE("reaping forgets the places that count no more, and no others") {
  LineFixture t;
  t.grant(asks("k", "holder"));
  const auto waiter = t.waits(asks("k", "waiter"));
  const auto dead = t.waits(asks_for_all({"k", "l"}, "dead"), 1us);
  const auto gone = t.waits(asks("k", "gone"), 1us);
  CHECK(t.line("k") == Owners{"waiter"});
  t.reap(true);
  CHECK(t.delete_places(gone.request()) == 1);
  t.reap(false);
  CHECK(t.delete_places(dead.request()) == 0);
  CHECK(t.line("k") == Owners{"waiter"});
}

STORE_CASE("a run that nests in a lease does not wait for those who wait for the lock", "[all-of-dblock]") {
  const auto request = GENERATE(from_range(all_kinds("outer")));
  CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
  LineFixture t;
  const Lease outer = t.grant(request);
  auto other = request;
  other.owner.text = "waiter";
  if (request.sharing.mode == Mode::shared) other.sharing = {};
  const auto waiter = t.waits(other);
  auto inner = request;
  inner.owner.text = "inner";
  inner.outer = outer.owner;
  const auto nested = t.store->nest(inner);
  REQUIRE(nested);
  REQUIRE(nested->has_value());
  CHECK(t.row("k").count == 2);
  CHECK(t.line("k") == Owners{"waiter"});
}

// Each waits and holds the lock as `dblock run` does.
STORE_CASE("acquisitions that wait are granted the lock one after the other, in their order") {
  LineFixture t;
  SystemClock clock;
  const Lease holder = t.grant(asks("k", "holder"));
  std::mutex mutex;
  Owners granted;
  std::vector<std::string> errors;
  const auto run = [&](const LeaseRequest& request) {
    const auto store = t.under_test->open();
    WakeEvent never;
    const auto outcome = lease::acquire(*store, clock, request, {Micros{test::patience()}}, {}, never);
    const std::lock_guard lock(mutex);
    const auto* const lease = outcome ? std::get_if<Lease>(&*outcome) : nullptr;
    if (lease == nullptr) {
      errors.push_back(outcome ? request.owner.text + " was not granted the lock" : outcome.error().message);
      return;
    }
    granted.push_back(request.owner.text);
    store->hold(LeaseStore::RenewedBy::another);
    const auto gone = store->release(ref_to(*lease), Actor::holder, {});
    if (!gone || !released(*gone)) errors.push_back(request.owner.text + " lost its lease");
    if (auto* const wake_up = store->wake_up()) wake_up->leave();
  };
  Owners arrived;
  {
    std::vector<std::jthread> threads;
    for (const auto* const owner : {"d", "a", "c", "b"}) {
      arrived.emplace_back(owner);
      threads.emplace_back(run, asks("k", owner));
      CHECK(test::wait_until([&] { return t.line("k") == arrived; }));
    }
    CHECK(released(t.release(ref(holder))));
  }
  CHECK(errors == std::vector<std::string>{});
  CHECK(granted == arrived);
  CHECK(t.line("k").empty());
}

}  // namespace dblock::contract
