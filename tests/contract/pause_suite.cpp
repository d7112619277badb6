// The contract of pauses: once a pause has been made, nothing that it covers is granted until it ends.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <set>
#include <thread>

#include "contract/store_fixture.hpp"
#include "lease/line.hpp"

namespace dblock::contract {
namespace {

PauseScope of_key(std::string text) {
  return {std::move(text), false};
}

PauseScope of_prefix(std::string text) {
  return {std::move(text), true};
}

struct PauseFixture : Fixture {
  std::unique_ptr<LockBook> desk = under_test->open();

  Paused pause(PauseScope scope, Micros length = 1h) {
    auto paused = desk->pause({std::move(scope), length, "op@desk", "new disks"});
    if (!paused) FAIL(paused.error().message);
    return std::move(*paused);
  }
  Resumed resume(const PauseScope& scope) {
    auto resumed = desk->resume(scope);
    if (!resumed) FAIL(resumed.error().message);
    return std::move(*resumed);
  }
  // Whether a try of this key, by a new owner, is refused by a pause alone. A grant is released again.
  bool is_paused(const std::string& name) {
    const auto request = asks(name, "try " + std::to_string(++tries_));
    const auto answer = acquire(request);
    if (const auto* held = std::get_if<Held>(&answer)) return held->status.only_paused();
    REQUIRE(std::holds_alternative<Granted>(answer));
    CHECK(released(release(ref(std::get<Granted>(answer).lease))));
    return false;
  }
  std::vector<Pause> pauses() {
    auto listing = store->list({.keys = {}, .prefix = {}, .with_pauses = true});
    if (!listing) FAIL(listing.error().message);
    return std::move(listing->pauses);
  }

 private:
  int tries_ = 0;
};

std::vector<LeaseRequest> every_kind(const std::string& owner) {
  return {asks("k", owner), reads("k", owner), takes_slot("k", owner, 3),
          asks_for_all({"k", "other"}, owner)};
}

}  // namespace

STORE_CASE("a pause refuses every kind of grant, and tells its end, who made it and why") {
  PauseFixture t;
  const bool before = GENERATE(true, false);  // the lock has a row before the pause
  const auto scope = GENERATE(of_key("k"), of_prefix("k"), of_prefix(""));
  for (const auto& request : every_kind("owner")) {
    CAPTURE(before, scope.text, to_string(request.sharing.mode), request.further_keys.size());
    if (before) t.release(ref_to(t.grant(request)));
    const auto paused = t.pause(scope);
    CHECK_FALSE(paused.replaced);
    auto again = request;
    again.owner.text = "again";
    for (const Answer& answer : {t.acquire(again), t.store->look(again).value()}) {
      REQUIRE(std::holds_alternative<Held>(answer));
      const auto& seen = std::get<Held>(answer).status;
      CHECK(seen.key == "k");
      CHECK(seen.only_paused());
      CHECK(seen.owner.empty());
      REQUIRE(seen.pause);
      CHECK(seen.pause->scope == scope);
      CHECK(seen.pause->until == paused.pause.until);
      CHECK(seen.pause->by == "op@desk");
      CHECK(seen.pause->note == "new disks");
    }
    CHECK(t.resume(scope).ended);
    t.release(ref_to(t.grant(again)));
    t.under_test->delete_row("k");
  }
}

STORE_CASE("holders of a paused lock renew and release, and are named before the pause") {
  PauseFixture t;
  for (const auto& request : every_kind("owner")) {
    CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
    const auto lease = t.grant(request);
    t.pause(of_key("k"));
    CHECK(renewed(t.renew(ref_to(lease))));
    // With slots no other use of the lock is asked for: that would be an error.
    if (request.sharing.mode != Mode::slot) {
      const auto held = t.conflict(asks_for_all({"k", "z"}, "writer"));
      CHECK(held.status.owner == "owner");
      CHECK_FALSE(held.status.only_paused());
      CHECK(held.status.pause);
    }
    // A repeat after a lost reply finds its own grant.
    CHECK(std::holds_alternative<Granted>(t.acquire(request)));
    CHECK(released(t.release(ref_to(lease))));
    CHECK(t.is_paused("k"));
    t.resume(of_key("k"));
    t.under_test->delete_row("k");
  }
}

STORE_CASE("readers and slots get no second holder while the lock is paused", "[all-of-dblock]") {
  PauseFixture t;
  const auto kind = GENERATE(Sharing{Mode::shared, 1}, Sharing{Mode::slot, 3});
  auto request = asks("k", "first");
  request.sharing = kind;
  t.grant(request);
  t.pause(of_prefix("k"));
  request.owner.text = "second";
  CHECK(t.conflict(request).status.pause);
  CHECK(owners(t) == Owners{"first"});
  t.resume(of_prefix("k"));
  t.grant(request);
}

STORE_CASE("a run that nests in a lease is not kept by a pause", "[all-of-dblock]") {
  PauseFixture t;
  const auto outer = t.grant(asks("k", "outer"));
  t.pause(of_key("k"));
  auto inner = asks("k", "inner");
  inner.outer = outer.owner;
  const auto nested = t.store->nest(inner);
  REQUIRE(nested);
  REQUIRE(nested->has_value());
  CHECK(released(t.release(ref_to(**nested))));
}

STORE_CASE("a pause ends by itself") {
  PauseFixture t;
  const auto scope = GENERATE(of_key("k"), of_prefix(""));
  t.grant(asks("held", "owner"));
  t.pause(scope, 10min);
  CHECK(t.is_paused("k"));
  t.under_test->age_pauses(10min);
  CHECK_FALSE(t.is_paused("k"));
  CHECK_FALSE(t.is_paused("new"));
  CHECK(t.pauses().empty());
  CHECK_FALSE(t.resume(scope).ended);
  // The next pause is not one that replaces it.
  CHECK_FALSE(t.pause(scope).replaced);
}

STORE_CASE("a pause of a key covers that key, and one of a prefix the keys that start so, byte by byte") {
  PauseFixture t;
  t.pause(of_key("a"));
  CHECK(t.is_paused("a"));
  for (const auto* const other : {"A", "a ", "ab", "b", "\xc3\xa1"}) CHECK_FALSE(t.is_paused(other));
  t.resume(of_key("a"));
  for (const auto* const prefix : {"a_", "a%", "\xe9\x8d\xb5"}) {
    t.pause(of_prefix(prefix));
    CHECK(t.is_paused(prefix));
    CHECK(t.is_paused(std::string(prefix) + "more"));
    for (const auto* const other : {"a", "ab", "A_", "a", "abc"}) CHECK_FALSE(t.is_paused(other));
    t.resume(of_prefix(prefix));
  }
  t.pause(of_prefix(""));
  for (const auto* const any : {"a", "A", "\xc3\xa1", "new"}) CHECK(t.is_paused(any));
}

STORE_CASE("a resume ends the pause of exactly its scope, and tells which others are left") {
  PauseFixture t;
  t.grant(asks("k", "owner"));
  t.release({key("k"), {"owner"}, std::nullopt});
  const auto longest = t.pause(of_prefix(""), 2h);
  t.pause(of_key("k"), 1h);
  t.pause(of_key("z"), 1h);
  CHECK(t.pauses().size() == 3);
  CHECK(t.conflict(asks("k", "next")).status.pause->until == longest.pause.until);
  CHECK_FALSE(t.resume(of_prefix("k")).ended);
  const auto resumed = t.resume(of_prefix(""));
  REQUIRE(resumed.ended);
  CHECK(resumed.ended->until == longest.pause.until);
  CHECK(resumed.left.size() == 2);
  CHECK(t.conflict(asks("k", "next")).status.pause->scope == of_key("k"));
  CHECK_FALSE(t.is_paused("other"));
  CHECK(t.resume(of_key("k")).left.empty());
  CHECK_FALSE(t.is_paused("k"));
  CHECK(t.is_paused("z"));
}

STORE_CASE("pausing again replaces the pause, by a shorter one too, with its maker and its note") {
  PauseFixture t;
  CHECK_FALSE(t.is_paused("k"));
  const auto first = t.pause(of_key("k"), 2h);
  const auto again = t.desk->pause({of_key("k"), 10min, "sam@laptop", "new switch"});
  REQUIRE(again);
  const auto& second = *again;
  REQUIRE(second.replaced);
  CHECK(second.replaced->until == first.pause.until);
  CHECK(second.replaced->by == "op@desk");
  CHECK(second.replaced->note == "new disks");
  REQUIRE(t.pauses().size() == 1);
  const auto refused = t.conflict(asks("k", "o")).status;
  REQUIRE(refused.pause);
  for (const auto& shown : {second.pause, t.pauses().front(), *refused.pause}) {
    CHECK(shown.scope == of_key("k"));
    CHECK(shown.until == second.pause.until);
    CHECK(shown.by == "sam@laptop");
    CHECK(shown.note == "new switch");
    CHECK(shown.since >= first.pause.since);
  }
  t.under_test->age_pauses(11min);
  CHECK_FALSE(t.is_paused("k"));
}

STORE_CASE("a pause that would end in the past is refused and changes nothing") {
  PauseFixture t;
  const auto refused = t.desk->pause({of_key("k"), ServerTime{Micros{1}}, "op@desk", ""});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::usage);
  CHECK(t.pauses().empty());
  CHECK_FALSE(t.is_paused("k"));
}

STORE_CASE("forgetting a lock loses no pause") {
  PauseFixture t;
  t.release(ref_to(t.grant(asks("k", "owner"))));
  t.pause(of_key("k"));
  t.under_test->age("k", 48h, true);
  CHECK(t.reap(false).forgotten == 1);
  CHECK(t.is_paused("k"));
}

// The lock was free all the time, and yet nobody could have taken it.
STORE_CASE(
    "a pause keeps the order: those who wait keep their places, and the lock counts as free from its end",
    "[once]") {
  const bool resumed = GENERATE(true, false);
  const auto scope = GENERATE(of_key("k"), of_prefix(""));
  for (const auto& request : every_kind("waiter")) {
    CAPTURE(resumed, scope.text, to_string(request.sharing.mode), request.further_keys.size());
    PauseFixture t;
    const auto holder = t.grant(asks("k", "holder"));
    t.pause(scope, 10min);
    t.release(ref_to(holder));
    auto waiter = request;
    const auto waits = t.under_test->open();
    const auto stand = [&] {
      const auto arrival = waits->stand_in_line(waiter, 1min, true);
      if (!arrival) FAIL(arrival.error().message);
      waiter.arrival = *arrival;
    };
    stand();
    const auto arrival = waiter.arrival;
    t.under_test->age("k", 10min, false);
    CHECK(t.conflict(asks("k", "other")).status.only_paused());
    if (resumed) t.resume(scope);
    if (!resumed) t.under_test->age_pauses(10min);
    stand();
    CHECK(waiter.arrival == arrival);
    const auto refused = t.conflict(asks("k", "other")).status;
    CHECK_FALSE(refused.pause);
    CHECK(refused.owner.empty());
    const auto lease = contract::grant(*waits, waiter);
    waits->hold(LeaseStore::RenewedBy::another);
    t.release(ref_to(lease));
    t.grant(asks("k", "other"));
  }
}

STORE_CASE(
    "the end of a pause keeps the order, of a lock that is new since then and beside another pause too") {
  const bool is_new = GENERATE(true, false);
  PauseFixture t;
  if (!is_new) t.release(ref_to(t.grant(asks("k", "holder"))));
  t.pause(of_prefix("k"), 1h);
  t.conflict(asks("k", "waiter"));
  REQUIRE(t.under_test->open()->stand_in_line(asks("k", "waiter"), 10min, true));
  t.under_test->age("k", 5min, false);
  const BootTime before = BootClock::now();
  t.resume(of_prefix("k"));
  t.pause(of_key("other"), 1h);
  const auto answer = t.acquire(asks("k", "late"));
  if (BootClock::now() - before < k_line_patience) CHECK(std::holds_alternative<Held>(answer));
  CHECK(t.pauses().size() == 1);
  t.pause(of_prefix("k"), 1h);  // again, though the row of the first may still be there
  CHECK(t.pauses().size() == 2);
}

STORE_CASE("a pause may last until the last year that the store can hold") {
  PauseFixture t;
  t.grant(asks("k", "holder"));
  const ServerTime end{Micros{253'402'214'400s}};  // 9999-12-31
  const auto paused = t.store->pause({of_key("k"), end, "op@desk", ""});
  if (!paused) FAIL(paused.error().message);
  CHECK(paused->pause.until == end);
}

STORE_CASE("three seconds after the end of a pause the lock goes to whoever asks") {
  const bool resumed = GENERATE(true, false);
  PauseFixture t;
  const auto holder = t.grant(asks("k", "holder"));
  const auto waits = t.under_test->open();
  REQUIRE(waits->stand_in_line(asks("k", "dead"), 10min, true));
  t.pause(of_key("k"), 10min);
  t.release(ref_to(holder));
  t.under_test->age("k", 1min, false);
  if (resumed) t.resume(of_key("k"));
  if (!resumed) t.under_test->age_pauses(10min);
  t.conflict(asks("k", "other"));
  t.under_test->age_pauses(3s);
  t.grant(asks("k", "other"));
}

STORE_CASE("a listing and a look count a lock as free from the end of its pause, as a grant does") {
  const bool resumed = GENERATE(true, false);
  const bool expired = GENERATE(true, false);
  const auto holder = GENERATE(asks("k", "holder"), reads("k", "holder"));
  CAPTURE(resumed, expired, to_string(holder.sharing.mode));
  PauseFixture t;
  const auto lease = t.grant(holder);
  REQUIRE(t.under_test->open()->stand_in_line(asks("k", "dead"), 10min, true));
  t.pause(of_key("k"), 10min);
  if (!expired) t.release(ref_to(lease));
  t.under_test->age("k", 30min, false);
  if (resumed) t.resume(of_key("k"));
  const auto all_long_free = [&] {
    const auto listed = t.rows({.keys = {key("k")}, .held_only = false});
    REQUIRE_FALSE(listed.empty());
    return std::ranges::all_of(listed, long_free);
  };
  const auto looked_long_free = [&] {
    const auto seen = t.store->look(asks("k", "other"));
    REQUIRE((seen && std::holds_alternative<Free>(*seen)));
    return long_free(*std::get<Free>(*seen).status);
  };
  const BootTime before = BootClock::now();
  if (!resumed) t.under_test->age_pauses(10min);
  const bool listed = all_long_free(), looked = looked_long_free();
  if (BootClock::now() - before < k_line_patience) {
    CHECK_FALSE(listed);
    CHECK_FALSE(looked);
  }
  t.under_test->age_pauses(k_line_patience);
  CHECK(all_long_free());
  CHECK(looked_long_free());
  t.grant(asks("k", "other"));
}

STORE_CASE("a period that is done is told before a pause", "[all-of-dblock]") {
  PauseFixture t;
  auto request = asks("k", "owner");
  request.promises.once_per = OncePer{1h};
  t.release(ref_to(t.grant(request)), Actor::holder, {RunOutcome::succeeded, 0});
  t.pause(of_key("k"));
  request.owner.text = "next";
  CHECK(std::holds_alternative<Done>(t.acquire(request)));
}

STORE_CASE("after a pause has returned no racer is granted what it covers, until it is resumed") {
  PauseFixture t;
  std::atomic<bool> over = false;
  std::atomic<int> granted = 0;
  const auto race = [&](int racer) {
    const auto store = t.under_test->open();
    for (int i = 0; !over; ++i) {
      const std::string owner = "r" + std::to_string(racer) + "-" + std::to_string(i);
      // Of each kind a lock of its own, and every few tries a lock that is new.
      const std::string suffix = racer % 2 == 0 ? "" : std::to_string(i / 8);
      auto request = racer % 4 == 0   ? asks("p-alone", owner)
                     : racer % 4 == 1 ? asks_for_all({"p-a" + suffix, "p-b" + suffix}, owner)
                     : racer % 4 == 2 ? takes_slot("p-slots", owner, 2)
                                      : reads("p-read" + suffix, owner);
      const auto answer = store->try_acquire(request);
      const auto* const ours = answer ? std::get_if<Granted>(&*answer) : nullptr;
      if (ours == nullptr) continue;
      ++granted;
      [[maybe_unused]] const auto done = store->release(ref_to(ours->lease), Actor::holder, {});
    }
  };
  std::vector<std::thread> racers;
  for (int racer = 0; racer < 6; ++racer) racers.emplace_back(race, racer);
  std::vector<std::string> late;
  for (int round = 0; round < 25; ++round) {
    const auto scope = round % 2 == 0 ? of_prefix("p-") : of_prefix("");
    const auto paused = t.desk->pause({scope, Micros{1h}, "op@desk", ""});
    if (!paused) late.push_back(paused.error().message);
    std::set<std::string> holders;
    for (int look = 0; look < 4; ++look) {
      const auto listing = t.store->list({.keys = {}, .prefix = "p-"});
      if (!listing) late.push_back(listing.error().message);
      if (!listing) break;
      for (const auto& lock : listing->locks) {
        if (look == 0) holders.insert(lock.owner);
        if (!holders.contains(lock.owner)) late.push_back(lock.key + " by " + lock.owner);
      }
      std::this_thread::sleep_for(5ms);
    }
    if (const auto resumed = t.desk->resume(scope); !resumed) late.push_back(resumed.error().message);
    std::this_thread::sleep_for(10ms);
  }
  over = true;
  for (auto& racer : racers) racer.join();
  CHECK(late == std::vector<std::string>{});
  CHECK(granted > 25);
}

}  // namespace dblock::contract
