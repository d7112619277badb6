// The contract on locks that several hold (readers, slots), and on acquisitions of several keys.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "contract/store_fixture.hpp"

namespace dblock::contract {
namespace {

LeaseRequest by_script(LeaseRequest request) {
  request.kind = Kind::acquire;
  request.terms.heartbeat.reset();
  return request;
}

// What a script knows of its lease.
LeaseRef named(const Lease& lease) {
  return {lease.key, lease.owner, std::nullopt};
}

bool is_granted(const Answer& outcome) {
  return std::holds_alternative<Granted>(outcome);
}

std::string usage_error(Fixture& t, const LeaseRequest& request) {
  const auto outcome = t.store->try_acquire(request);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Errc::usage);
  return outcome.error().message;
}

bool names(const std::string& message, std::string_view what) {
  return message.find(what) != std::string::npos;
}

// The row of one of the lock's holders.
std::optional<LockStatus> holder(Fixture& t, std::string_view name, const std::string& owner) {
  for (auto& row : t.rows({{key(name)}, {}, false})) {
    if (row.owner == owner) return std::move(row);
  }
  return std::nullopt;
}

Answer look(Fixture& t, const LeaseRequest& request) {
  auto seen = t.store->look(request);
  if (!seen) FAIL(seen.error().message);
  return std::move(*seen);
}

// A wait for a row that has ended (MariaDB's and SQLite's error), as on a machine that stands still for
// seconds: nothing was done.
bool is_lock_wait(const Error& error) {
  return error.code == Errc::unreachable && (error.native == 1205 || error.native == 5);
}

// Until each of `threads` has done its part; the part gets its number and a session of its own.
void in_parallel(Fixture& t, int threads, const std::function<void(int, LockBook&)>& part) {
  std::vector<std::unique_ptr<LockBook>> stores;
  for (int i = 0; i < threads; ++i) {
    stores.push_back(t.under_test->open());
    REQUIRE(stores.back()->connect());
  }
  std::atomic<int> ready{0};
  std::vector<std::jthread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      ++ready;
      while (ready < threads) std::this_thread::yield();
      part(i, *stores[static_cast<std::size_t>(i)]);
    });
  }
}

}  // namespace

STORE_CASE("readers have a lock together, each with a token of its own", "[all-of-dblock][safety]") {
  Fixture t;
  const Lease first = t.grant(reads("k", "reader-1"));
  const Lease second = t.grant(reads("k", "reader-2"));
  const Lease third = t.grant(reads("k", "reader-3"));
  CHECK(second.token > first.token);
  CHECK(third.token > second.token);
  CHECK(first.sharing.mode == Mode::shared);
  CHECK_FALSE(first.needs_renewal_proof);
  CHECK(owners(t) == Owners{"reader-1", "reader-2", "reader-3"});
  const auto row = holder(t, "k", "reader-2");
  REQUIRE(row);
  CHECK(row->state == State::held);
  CHECK(row->token == second.token);
  CHECK(row->sharing.mode == Mode::shared);
  CHECK(row->holder.host == "host");
  CHECK(row->holder.note == "note");
  CHECK(row->ttl == 60s);
  CHECK(row->heartbeat == Micros{10s});
  REQUIRE(row->expires_at);
  CHECK(row->expires_at->since_epoch == row->acquired_at->since_epoch + 60s);
}

STORE_CASE("a writer waits for the last reader, and readers for a writer", "[safety]") {
  Fixture t;
  const Lease first = t.grant(reads("k", "reader-1"));
  const Lease second = t.grant(reads("k", "reader-2"));
  CHECK(t.conflict(asks("k", "writer")).status.sharing.mode == Mode::shared);
  CHECK(released(t.release(ref_to(first))));
  CHECK(t.conflict(asks("k", "writer")).status.owner == "reader-2");
  CHECK(released(t.release(ref_to(second))));
  const Lease writer = t.grant(asks("k", "writer"));
  CHECK(writer.token > second.token);
  CHECK(t.row("k").sharing.mode == Mode::exclusive);
  const Held refusal = t.conflict(reads("k", "reader-3"));
  CHECK(refusal.status.owner == "writer");
  CHECK(refusal.status.token == writer.token);
  CHECK(renewed(t.renew(ref_to(writer))));
  CHECK(released(t.release(ref_to(writer))));
  CHECK(t.grant(reads("k", "reader-3")).token > writer.token);
}

STORE_CASE("the refusal of a writer names the reader who has longest to go") {
  Fixture t;
  t.grant(reads("k", "reader-1"));
  auto request = reads("k", "reader-2");
  request.terms.ttl = 10min;
  t.grant(request);
  t.grant(reads("k", "reader-3"));
  CHECK(t.conflict(asks("k", "writer")).status.owner == "reader-2");
}

STORE_CASE("a writer that does not wait leaves the readers alone", "[all-of-dblock]") {
  Fixture t;
  t.grant(reads("k", "reader-1"));
  t.conflict(asks("k", "writer"));
  t.grant(reads("k", "reader-2"));
}

STORE_CASE("slots are given lowest first, and no more than there are", "[all-of-dblock][safety]") {
  Fixture t;
  std::vector<Lease> leases;
  for (std::uint32_t slot = 1; slot <= 3; ++slot) {
    leases.push_back(t.grant(takes_slot("k", "owner-" + std::to_string(slot), 3)));
    CHECK(leases.back().slot == slot);
    CHECK(leases.back().sharing == Sharing{Mode::slot, 3});
  }
  const Held refusal = t.conflict(takes_slot("k", "owner-4", 3));
  CHECK(refusal.status.sharing == Sharing{Mode::slot, 3});
  CHECK(refusal.status.slot > 0);
  CHECK(released(t.release(ref_to(leases[1]))));
  CHECK(t.grant(takes_slot("k", "owner-4", 3)).slot == 2);
  CHECK(released(t.release(ref_to(leases[2]))));
  CHECK(released(t.release(ref_to(leases[0]))));
  CHECK(t.grant(takes_slot("k", "owner-5", 3)).slot == 1);
  CHECK(t.grant(takes_slot("k", "owner-6", 3)).slot == 3);
  t.conflict(takes_slot("k", "owner-7", 3));
}

STORE_CASE("another number of slots, or another kind of lock, is refused as usage while slots are held",
           "[all-of-dblock][safety]") {
  Fixture t;
  const Lease first = t.grant(takes_slot("k", "owner-1", 2));
  const Lease second = t.grant(takes_slot("k", "owner-2", 2));
  const auto count = usage_error(t, takes_slot("k", "owner-3", 3));
  CHECK(names(count, "--slots 2"));
  CHECK(names(count, "--slots 3"));
  CHECK(names(count, "(by 2)"));
  const auto shared = usage_error(t, reads("k", "owner-3"));
  CHECK(names(shared, "--slots 2"));
  CHECK(names(shared, "--shared"));
  const auto alone = usage_error(t, asks("k", "owner-3"));
  CHECK(names(alone, "--slots 2"));
  CHECK(names(alone, "exclusive"));
  CHECK(released(t.release(ref_to(first))));
  CHECK(names(usage_error(t, takes_slot("k", "owner-3", 3)), "(by 1)"));
  CHECK(released(t.release(ref_to(second))));
  CHECK(t.grant(takes_slot("k", "owner-3", 3)).slot == 1);
  CHECK(holder(t, "k", "owner-3")->sharing == Sharing{Mode::slot, 3});
}

STORE_CASE("slots are refused as usage while readers or a writer hold the lock, and granted after them",
           "[safety]") {
  Fixture t;
  const Lease reader = t.grant(reads("k", "reader"));
  const auto readers = usage_error(t, takes_slot("k", "owner", 2));
  CHECK(names(readers, "--shared"));
  CHECK(names(readers, "--slots 2"));
  CHECK(released(t.release(ref_to(reader))));
  const Lease writer = t.grant(asks("k", "writer"));
  const auto exclusive = usage_error(t, takes_slot("k", "owner", 2));
  CHECK(names(exclusive, "exclusive"));
  CHECK(names(exclusive, "--slots 2"));
  CHECK(released(t.release(ref_to(writer))));
  const Lease slot = t.grant(takes_slot("k", "owner", 2));
  CHECK(slot.slot == 1);
  CHECK(released(t.release(ref_to(slot))));
  t.grant(reads("k", "reader"));
}

STORE_CASE("tokens increase over all kinds of leases, release, expiry, reaping and forgetting", "[safety]") {
  Fixture t;
  std::vector<Token> tokens;
  const auto take = [&](const LeaseRequest& request) {
    tokens.push_back(t.grant(request).token);
    return LeaseRef{request.key, request.owner, tokens.back(), request.further_keys, request.sharing.mode};
  };
  const auto pass = [&](const LeaseRequest& request) { CHECK(released(t.release(take(request)))); };
  pass(asks("k", "exclusive-1"));
  take(reads("k", "reader-1"));
  take(reads("k", "reader-2"));
  t.under_test->age("k", 2min, false);
  pass(asks("k", "exclusive-2"));
  take(takes_slot("k", "slot-1", 2));
  take(takes_slot("k", "slot-2", 2));
  t.under_test->age("k", 2min, false);
  CHECK(t.reap(false).abandoned.size() == 2);
  pass(asks_for_all({"k", "l"}, "several"));
  pass(reads("k", "reader-3"));
  pass(asks("k", "exclusive-3"));
  for (std::size_t i = 1; i < tokens.size(); ++i) CHECK(tokens[i] > tokens[i - 1]);
  t.under_test->age("k", 100h, true);
  CHECK(t.reap(false, 48h).forgotten > 0);
  CHECK(t.grant(reads("k", "reader-4")).token > tokens.back());
}

STORE_CASE("a token from the future is exceeded by a hold's, and that by the next grant's", "[safety]") {
  Fixture t;
  CHECK(released(t.release(ref(t.grant(asks("k", "owner-1"))))));
  t.under_test->age("k", -Micros{240h}, true);  // as if granted by a clock ten days ahead
  const Token ahead = t.row("k").token;
  const Lease reader = t.grant(reads("k", "reader"));
  CHECK(reader.token.value == ahead.value + 1);
  CHECK(released(t.release(ref_to(reader))));
  CHECK(t.grant(asks("k", "owner-2")).token.value == ahead.value + 2);
}

STORE_CASE("each holder renews and releases its own lease only", "[all-of-dblock][safety]") {
  Fixture t;
  const auto request = GENERATE(0, 1) == 0 ? reads("k", "") : takes_slot("k", "", 3);
  std::vector<Lease> leases;
  for (const auto* const owner : {"owner-1", "owner-2", "owner-3"}) {
    auto one = request;
    one.owner.text = owner;
    leases.push_back(t.grant(one));
  }
  const auto first = *holder(t, "k", "owner-1");
  const auto second = *holder(t, "k", "owner-2");
  CHECK(renewed(t.renew(ref_to(leases[1]), Actor::holder, 10min)));
  CHECK(holder(t, "k", "owner-1")->expires_at == first.expires_at);
  CHECK(holder(t, "k", "owner-2")->expires_at > second.expires_at);
  CHECK(holder(t, "k", "owner-2")->token == leases[1].token);

  auto wrong = ref_to(leases[0]);
  wrong.token = leases[1].token;
  CHECK(why(t.renew(wrong)) == NotOursWhy::other_holder);
  CHECK(why(t.release(wrong)) == NotOursWhy::other_holder);
  CHECK(owners(t) == Owners{"owner-1", "owner-2", "owner-3"});

  CHECK(released(t.release(ref_to(leases[1]), Actor::holder, {RunOutcome::failed, 3})));
  CHECK(owners(t) == Owners{"owner-1", "owner-3"});
  CHECK(why(t.release(ref_to(leases[1]))) == NotOursWhy::free);
  CHECK(why(t.renew(ref_to(leases[1]))) == NotOursWhy::free);
  CHECK(renewed(t.renew(ref_to(leases[0]))));
  CHECK(released(t.release(ref_to(leases[0]))));
  CHECK(released(t.release(ref_to(leases[2]), Actor::holder, {RunOutcome::failed, 4})));
  CHECK(owners(t).empty());
  CHECK(why(t.release(ref_to(leases[2]))) == NotOursWhy::free);
  const auto row = t.row("k");
  CHECK(row.state == State::free);
  REQUIRE(row.last);
  CHECK(row.last->outcome == RunOutcome::failed);
  CHECK(row.last->exit_code == 4);
  CHECK(row.last->host == "host");
}

STORE_CASE("a script renews and releases its hold without knowing its kind or token",
           "[all-of-dblock][safety]") {
  Fixture t;
  const auto request = GENERATE(0, 1) == 0 ? reads("k", "script") : takes_slot("k", "script", 2);
  auto other = request;
  other.owner.text = "other";
  const Lease run = t.grant(other);
  const Lease lease = t.grant(by_script(request));
  const auto outcome = t.renew(named(lease), Actor::script, 10min);
  REQUIRE(renewed(outcome));
  CHECK(std::get<Renewed>(outcome).expires_at == holder(t, "k", "script")->expires_at);
  CHECK(why(t.release(named(run), Actor::script)) == NotOursWhy::other_kind);
  CHECK(why(t.renew(named(run), Actor::script, std::nullopt)) == NotOursWhy::other_kind);
  CHECK(released(t.release(named(lease), Actor::script)));
  CHECK(owners(t) == Owners{"other"});
  CHECK(why(t.release(named(lease), Actor::script)) == NotOursWhy::other_holder);
}

STORE_CASE("a script's hold that has expired is neither renewed nor released by it",
           "[all-of-dblock][safety]") {
  Fixture t;
  const Lease lease = t.grant(by_script(takes_slot("k", "script", 2)));
  t.under_test->age_hold("k", 1, 65s);
  CHECK(why(t.renew(named(lease), Actor::script, std::nullopt)) == NotOursWhy::expired);
  CHECK(why(t.release(named(lease), Actor::script)) == NotOursWhy::expired);
  CHECK(released(t.release(named(lease))));
}

STORE_CASE("a hold found with the asker's own owner id is granted and needs proof",
           "[all-of-dblock][safety]") {
  Fixture t;
  t.grant(takes_slot("k", "owner-1", 2));
  const Lease first = t.grant(takes_slot("k", "owner-2", 2));
  const Lease again = t.grant(takes_slot("k", "owner-2", 2));
  CHECK(again.token == first.token);
  CHECK(again.slot == 2);
  CHECK(again.needs_renewal_proof);
  CHECK(owners(t) == Owners{"owner-1", "owner-2"});
}

STORE_CASE("an expired reader is in a writer's way for its margin, and cannot come back after it",
           "[safety]") {
  Fixture t;
  const Lease gone = t.grant(reads("k", "gone"));
  const Lease here = t.grant(reads("k", "here"));
  t.under_test->age_hold("k", 1, 65s);
  CHECK(why(t.renew(ref_to(gone))) == NotOursWhy::expired);
  CHECK(released(t.release(ref_to(here))));
  const Held refusal = t.conflict(asks("k", "writer"));
  CHECK(refusal.status.owner == "gone");
  CHECK(refusal.status.state == State::expired);
  t.under_test->age_hold("k", 1, 5s);
  const Lease writer = t.grant(asks("k", "writer"));
  CHECK_FALSE(renewed(t.renew(ref_to(gone))));
  CHECK_FALSE(released(t.release(ref_to(gone))));
  // Even when it was sent before the lease expired, and comes now.
  t.under_test->age_hold("k", 1, -Micros{10min});
  CHECK_FALSE(renewed(t.renew(ref_to(gone))));
  CHECK(owners(t) == Owners{"writer"});
  CHECK(renewed(t.renew(ref_to(writer))));
}

STORE_CASE("an expired writer is in the readers' way for its margin, and cannot come back after it",
           "[safety]") {
  Fixture t;
  const Lease gone = t.grant(asks("k", "gone"));
  t.under_test->age("k", 65s, false);
  CHECK(t.conflict(reads("k", "reader")).status.owner == "gone");
  t.under_test->age("k", 5s, false);
  t.grant(reads("k", "reader"));
  CHECK_FALSE(renewed(t.renew(ref_to(gone))));
  CHECK_FALSE(released(t.release(ref_to(gone))));
  CHECK(owners(t) == Owners{"reader"});
}

STORE_CASE("an expired slot is taken over after its margin, and its holder is refused then",
           "[all-of-dblock][safety]") {
  Fixture t;
  const Lease gone = t.grant(takes_slot("k", "gone", 2));
  const Lease here = t.grant(takes_slot("k", "here", 2));
  t.under_test->age_hold("k", 1, 65s);
  const Held refusal = t.conflict(takes_slot("k", "next", 2));
  CHECK(refusal.status.owner == "gone");
  t.under_test->age_hold("k", 1, 5s);
  const Lease next = t.grant(takes_slot("k", "next", 2));
  CHECK(next.slot == 1);
  CHECK_FALSE(renewed(t.renew(ref_to(gone))));
  CHECK_FALSE(released(t.release(ref_to(gone))));
  CHECK(owners(t) == Owners{"next", "here"});
  CHECK(renewed(t.renew(ref_to(next))));
  CHECK(renewed(t.renew(ref_to(here))));
}

STORE_CASE("an expired place that the next kind of sharing does not have cannot come back",
           "[all-of-dblock][safety]") {
  Fixture t;
  const Lease first = t.grant(takes_slot("k", "first", 3));
  const Lease gone = t.grant(takes_slot("k", "gone", 3));
  CHECK(released(t.release(ref_to(first))));
  t.under_test->age_hold("k", 2, 10min);
  const Lease reader = t.grant(reads("k", "reader"));
  CHECK(owners(t) == Owners{"reader"});
  // As a renewal that was sent in time would find it.
  t.under_test->age_hold("k", 2, -Micros{20min});
  CHECK_FALSE(renewed(t.renew(ref_to(gone))));
  CHECK(renewed(t.renew(ref_to(reader))));
}

STORE_CASE("a late release by the holder of an expired hold counts as long as nobody took over",
           "[all-of-dblock][safety]") {
  Fixture t;
  const Lease lease = t.grant(takes_slot("k", "owner", 1));
  t.under_test->age("k", 10min, false);
  CHECK(released(t.release(ref_to(lease), Actor::holder, {RunOutcome::succeeded, 0})));
  REQUIRE(t.row("k").last_success);
}

STORE_CASE("several keys are taken together with one token, renewed and released together", "[safety]") {
  Fixture t;
  CHECK(released(t.release(ref(t.grant(asks("b", "before"))))));
  const Lease lease = t.grant(asks_for_all({"c", "a", "b"}, "owner"));
  CHECK(lease.key == key("a"));
  CHECK(lease.further_keys == std::vector<Key>{key("b"), key("c")});
  const auto before = t.rows();
  REQUIRE(before.size() == 3);
  for (const auto& row : before) {
    CHECK(row.owner == "owner");
    CHECK(row.token == lease.token);
    CHECK(row.sharing.mode == Mode::exclusive);
    CHECK(row.state == State::held);
  }
  CHECK(t.conflict(asks("b", "other")).status.owner == "owner");
  CHECK(renewed(t.renew(ref_to(lease), Actor::holder, 10min)));
  const auto after = t.rows();
  for (std::size_t i = 0; i < 3; ++i) CHECK(after[i].expires_at > before[i].expires_at);
  CHECK(released(t.release(ref_to(lease), Actor::holder, {RunOutcome::succeeded, 0})));
  CHECK(t.rows().empty());
  for (const auto* const name : {"a", "b", "c"}) {
    CHECK(t.row(name).last->outcome == RunOutcome::succeeded);
    CHECK(t.grant(asks(name, "next")).token > lease.token);
  }
}

STORE_CASE("the token of several keys exceeds what each of them has had", "[safety]") {
  Fixture t;
  const auto ahead = GENERATE(as<std::string>{}, "a", "b", "c");
  CAPTURE(ahead);
  for (const auto* const name : {"a", "b", "c"})
    CHECK(released(t.release(ref(t.grant(asks(name, "owner"))))));
  t.under_test->age(ahead, -Micros{240h}, true);  // as if granted by a clock ten days ahead
  const Token highest = t.row(ahead).token;
  CHECK(t.grant(asks_for_all({"a", "b", "c"}, "owner")).token.value == highest.value + 1);
}

STORE_CASE("a lease that is nested in is not released before its nested one, nor are other keys of it",
           "[all-of-dblock][safety]") {
  Fixture t;
  const auto request = GENERATE(asks("a", "owner"), reads("a", "owner"), takes_slot("a", "owner", 1),
                                asks_for_all({"a", "b"}, "owner"));
  CAPTURE(to_string(request.sharing.mode), request.further_keys.size());
  const Lease outer = t.grant(request);
  auto inner = request;
  inner.further_keys.clear();
  inner.outer = outer.owner;
  const auto nested = t.store->nest(inner);
  REQUIRE((nested && *nested));
  const auto refused = t.release(ref_to(outer));
  REQUIRE(std::holds_alternative<NotOurs>(refused));
  CHECK(std::get<NotOurs>(refused).why == NotOursWhy::nested);
  for (const Key& held : request.further_keys) CHECK(t.row(held.bytes()).owner == outer.owner.text);
  const bool by_force = GENERATE(true, false);
  if (!by_force) CHECK(released(t.release(ref_to(**nested))));
  CHECK(released(t.release(ref_to(outer), by_force ? Actor::stopper : Actor::holder)));
  CHECK(owners(t).empty());
}

STORE_CASE("of several keys none is taken when one is refused", "[safety]") {
  Fixture t;
  const auto in_the_way = GENERATE(as<std::string>{}, "a", "b", "c");
  CAPTURE(in_the_way);
  t.grant(reads(in_the_way, "reader"));
  const Held refusal = t.conflict(asks_for_all({"a", "b", "c"}, "owner"));
  CHECK(refusal.status.key == in_the_way);
  CHECK(refusal.status.owner == "reader");
  CHECK(owners(t) == Owners{"reader"});
  for (const std::string name : {"a", "b", "c"}) {
    if (name != in_the_way) t.grant(asks(name, "other"));
  }
}

STORE_CASE("several keys of which one was lost are not renewed, and the others are released", "[safety]") {
  Fixture t;
  const Lease lease = t.grant(asks_for_all({"a", "b", "c"}, "owner"));
  t.under_test->age("b", 2min, false);
  t.grant(asks("b", "other"));
  CHECK(why(t.renew(ref_to(lease))) == NotOursWhy::other_holder);
  CHECK(why(t.release(ref_to(lease))) == NotOursWhy::other_holder);
  CHECK(owners(t) == Owners{"other"});
}

STORE_CASE("of several keys that are read together the one that was lost is not taken for released",
           "[all-of-dblock][safety]") {
  Fixture t;
  const Lease before = t.grant(reads("b", "before"));
  auto request = asks_for_all({"a", "b"}, "reader");
  request.sharing = {Mode::shared, 1};
  const Lease lease = t.grant(request);
  t.under_test->age_hold("b", lease.rows.back(), 2min);
  CHECK(t.reap(false).abandoned.size() == 1);
  // The last run under "b" ends as the lease's own will.
  CHECK(released(t.release(ref_to(before), Actor::holder, {RunOutcome::failed, 1})));
  CHECK(why(t.release(ref_to(lease), Actor::holder, {RunOutcome::failed, 1})) == NotOursWhy::free);
  CHECK(owners(t).empty());
}

STORE_CASE("several keys are read together") {
  Fixture t;
  auto request = asks_for_all({"a", "b"}, "reader-1");
  request.sharing = {Mode::shared, 1};
  const Lease first = t.grant(request);
  const Lease second = t.grant(reads("b", "reader-2"));
  CHECK(second.token > first.token);
  CHECK(t.conflict(asks("a", "writer")).status.owner == "reader-1");
  CHECK(renewed(t.renew(ref_to(first))));
  CHECK(released(t.release(ref_to(first))));
  CHECK(owners(t) == Owners{"reader-2"});
  t.grant(asks("a", "writer"));
}

STORE_CASE("opposite orders of naming keys neither deadlock nor fail", "[all-of-dblock]") {
  Fixture t;
  constexpr int k_rounds = 60;
  std::atomic<int> errors{0}, overlaps{0}, granted{0};
  std::array<std::atomic<int>, 3> inside{};
  const std::vector<std::string> all{"a", "b", "c"};
  in_parallel(t, 4, [&](int number, LockBook& store) {
    const auto skip = static_cast<std::size_t>(number) % 3;
    for (int round = 0; round < k_rounds; ++round) {
      std::vector<std::string> wanted{all[(skip + 2) % 3], all[(skip + 1) % 3]};
      if (number % 2 == 1) std::ranges::reverse(wanted);
      const auto request =
          asks_for_all(wanted, "owner-" + std::to_string(number) + "-" + std::to_string(round));
      const auto outcome = store.try_acquire(request);
      if (!outcome) ++errors;
      if (!outcome || !is_granted(*outcome)) continue;
      ++granted;
      for (std::size_t i = 0; i < 3; ++i) {
        if (i != skip && inside[i].fetch_add(1) != 0) ++overlaps;
      }
      std::this_thread::yield();
      for (std::size_t i = 0; i < 3; ++i) {
        if (i != skip) --inside[i];
      }
      const auto gone = store.release(ref_to(std::get<Granted>(*outcome).lease), Actor::holder, {});
      if (!gone || !released(*gone)) ++errors;
    }
  });
  CHECK(errors == 0);
  CHECK(overlaps == 0);
  CHECK(granted > 0);
}

STORE_CASE("readers, writers and slots race without an overlap", "[safety]") {
  Fixture t;
  constexpr int k_threads = 16;
  constexpr int k_rounds = 40;
  constexpr std::uint32_t k_slots = 3;
  std::atomic<int> overlaps{0}, readers{0}, writers{0}, granted{0}, undone{0};
  std::array<std::string, k_threads> errors;  // the last one of each thread
  std::array<std::atomic<int>, k_slots + 1> slots{};
  std::array<std::vector<Token>, k_threads> tokens;
  const auto enter = [&](const Lease& lease) {
    if (lease.sharing.mode == Mode::slot) return slots.at(lease.slot)++ == 0;
    if (lease.sharing.mode == Mode::exclusive) return writers++ == 0 && readers == 0;
    ++readers;
    return writers == 0;
  };
  const auto leave = [&](const Lease& lease) {
    if (lease.sharing.mode == Mode::slot) return --slots.at(lease.slot);
    return lease.sharing.mode == Mode::exclusive ? --writers : --readers;
  };
  in_parallel(t, k_threads, [&](int number, LockBook& store) {
    auto& own_error = errors.at(static_cast<std::size_t>(number));
    for (int round = 0; round < k_rounds; ++round) {
      const std::string owner = "owner-" + std::to_string(number) + "-" + std::to_string(round);
      const auto request = number % 3 == 0   ? asks("k", owner)
                           : number % 3 == 1 ? reads("k", owner)
                                             : takes_slot("s", owner, k_slots);
      const auto outcome = store.try_acquire(request);
      if (!outcome && is_lock_wait(outcome.error()))
        ++undone;
      else if (!outcome)
        own_error = outcome.error().message;
      if (!outcome || !is_granted(*outcome)) continue;
      const auto& lease = std::get<Granted>(*outcome).lease;
      ++granted;
      tokens.at(static_cast<std::size_t>(number)).push_back(lease.token);
      if (!enter(lease)) ++overlaps;
      std::this_thread::yield();
      leave(lease);
      const auto release = [&] {
        return store.release(ref_to(lease), Actor::holder, {RunOutcome::succeeded, 0});
      };
      auto gone = release();
      for (int tries = 1; !gone && is_lock_wait(gone.error()) && tries < 3; ++tries, gone = release())
        ++undone;
      if (!gone) own_error = gone.error().message;
      if (gone && !released(*gone)) own_error = "the lease of " + owner + " was lost";
    }
  });
  for (const auto& error : errors) CHECK(error == "");
  CHECK(overlaps == 0);
  CHECK(undone <= k_rounds);
  CHECK(granted >= k_rounds);
  CHECK(owners(t).empty());
  std::map<std::string, std::vector<Token>> of_key;
  for (int number = 0; number < k_threads; ++number) {
    auto& all = of_key[number % 3 == 2 ? "s" : "k"];
    const auto& own = tokens.at(static_cast<std::size_t>(number));
    CHECK(std::ranges::is_sorted(own));
    all.insert(all.end(), own.begin(), own.end());
  }
  for (auto& [name, all] : of_key) {
    std::ranges::sort(all);
    CHECK(std::ranges::adjacent_find(all) == all.end());
  }
}

STORE_CASE("a listing shows one entry a holder, with its mode and slot, by key and slot") {
  Fixture t;
  const Lease reader = t.grant(reads("r", "reader-1"));
  t.grant(reads("r", "reader-2"));
  const Lease first = t.grant(takes_slot("s", "slot-1", 3));
  t.grant(takes_slot("s", "slot-2", 3));
  const Lease third = t.grant(takes_slot("s", "slot-3", 3));
  t.grant(asks("a", "alone"));
  t.grant(asks("z", "alone"));
  CHECK(released(t.release(ref(t.grant(asks("free", "owner"))))));
  CHECK(owners(t) == Owners{"alone", "reader-1", "reader-2", "slot-1", "slot-2", "slot-3", "alone"});
  CHECK(released(t.release(ref_to(first))));
  t.under_test->age_hold("s", 3, 65s);
  CHECK(owners(t) == Owners{"alone", "reader-1", "reader-2", "slot-2", "alone"});
  const auto all = t.rows({{}, {}, false});
  REQUIRE(all.size() == 7);
  CHECK(all[0].sharing.mode == Mode::exclusive);
  CHECK(all[0].slot == 0);
  CHECK(all[1].key == "free");
  CHECK(all[2].owner == "reader-1");
  CHECK(all[2].sharing.mode == Mode::shared);
  CHECK(all[2].token == reader.token);
  CHECK(all[4].owner == "slot-2");
  CHECK(all[4].sharing == Sharing{Mode::slot, 3});
  CHECK(all[4].slot == 2);
  CHECK(all[5].token == third.token);
  CHECK(all[5].state == State::expired);
  CHECK(all[5].slot == 3);
  CHECK(owners(t, {{key("s")}, {}, false}) == Owners{"slot-2", "slot-3"});
  CHECK(owners(t, {{}, "s", true}) == Owners{"slot-2"});
}

STORE_CASE("a lock that all its holders have left is listed once, as free", "[all-of-dblock]") {
  Fixture t;
  const Lease first = t.grant(takes_slot("k", "owner-1", 2));
  const Lease second = t.grant(takes_slot("k", "owner-2", 2));
  CHECK(released(t.release(ref_to(first), Actor::holder, {RunOutcome::succeeded, 0})));
  CHECK(released(t.release(ref_to(second), Actor::holder, {RunOutcome::succeeded, 0})));
  CHECK(t.rows().empty());
  const auto rows = t.rows({{}, {}, false});
  REQUIRE(rows.size() == 1);
  CHECK(rows.front().state == State::free);
  CHECK(rows.front().slot == 0);
  REQUIRE(rows.front().last);
  CHECK(rows.front().last->outcome == RunOutcome::succeeded);
}

STORE_CASE("reaping frees expired holds, reports each, and leaves the others", "[safety]") {
  Fixture t;
  const Lease alive = t.grant(takes_slot("s", "alive", 3));
  const Lease in_margin = t.grant(takes_slot("s", "in margin", 3));
  const Lease past = t.grant(takes_slot("s", "past", 3));
  t.grant(reads("r", "reader"));
  t.under_test->age_hold("s", 2, 65s);
  t.under_test->age_hold("s", 3, 2min);
  t.under_test->age("r", 2min, false);
  for (const bool dry : {true, false}) {
    const auto report = t.reap(dry);
    REQUIRE(report.abandoned.size() == 2);
    CHECK(report.abandoned[0].key == "r");
    CHECK(report.abandoned[0].owner == "reader");
    CHECK(report.abandoned[1].key == "s");
    CHECK(report.abandoned[1].owner == "past");
    CHECK(report.abandoned[1].slot == 3);
    CHECK(report.abandoned[1].token == past.token);
    CHECK(owners(t, {{key("s")}, {}, false}) ==
          (dry ? Owners{"alive", "in margin", "past"} : Owners{"alive", "in margin"}));
  }
  CHECK(t.reap(false).abandoned.empty());
  CHECK_FALSE(renewed(t.renew(ref_to(past))));
  CHECK(renewed(t.renew(ref_to(alive))));
  CHECK(t.grant(takes_slot("s", "next", 3)).slot == 3);
  t.grant(asks("r", "writer"));
}

STORE_CASE("reaping forgets no lock that has holders, and its holds when they are gone",
           "[all-of-dblock][safety]") {
  Fixture t;
  auto request = reads("k", "long");
  request.terms.ttl = 2000h;
  const Lease reader = t.grant(request);
  const Lease other = t.grant(reads("k", "short"));
  CHECK(released(t.release(ref_to(other))));
  t.under_test->age("k", 1000h, true);
  static_cast<void>(t.reap(false, 48h));
  CHECK(owners(t) == Owners{"long"});
  CHECK(t.conflict(asks("k", "writer")).status.owner == "long");
  CHECK(renewed(t.renew({key("k"), {"long"}, std::nullopt, {}, Mode::shared})));
  CHECK(t.grant(reads("k", "another")).token > other.token);
  t.under_test->age("k", 5000h, true);
  CHECK(t.reap(false, 48h).abandoned.size() == 2);
  t.under_test->age("k", 100h, true);
  CHECK(t.reap(true, 48h).forgotten > 0);
  CHECK(t.reap(false, 48h).forgotten > 0);
  CHECK(t.rows({{}, {}, false}).empty());
  CHECK(t.reap(false, 48h).forgotten == 0);
}

STORE_CASE("revoking one of several holders by its token leaves the others", "[all-of-dblock][safety]") {
  Fixture t;
  const Lease first = t.grant(reads("k", "reader-1"));
  const Lease second = t.grant(reads("k", "reader-2"));
  const auto outcome = t.revoke("k", second.token);
  REQUIRE(std::holds_alternative<Revoked>(outcome));
  CHECK(std::get<Revoked>(outcome).status.owner == "reader-2");
  CHECK(std::get<Revoked>(outcome).status.revoked_at);
  CHECK(why(t.renew(ref_to(second))) == NotOursWhy::revoked);
  CHECK(renewed(t.renew(ref_to(first))));
  CHECK(owners(t) == Owners{"reader-1", "reader-2"});
  CHECK(released(t.release(ref_to(second), Actor::holder, {RunOutcome::lost, {}})));
  CHECK(refused(t.revoke("k", second.token)) == ForceRefused::Why::wrong_token);
  CHECK(refused(t.revoke("k", Token{1})) == ForceRefused::Why::wrong_token);
  CHECK(released(t.release(ref_to(first))));
  CHECK(refused(t.revoke("k", first.token)) == ForceRefused::Why::not_held);
}

STORE_CASE("freeing one of several holders by its token leaves the others", "[all-of-dblock][safety]") {
  Fixture t;
  const Lease first = t.grant(takes_slot("k", "slot-1", 2));
  const Lease second = t.grant(takes_slot("k", "slot-2", 2));
  CHECK(refused(t.free_now("k", first.token)) == ForceRefused::Why::fresh_heartbeat);
  t.under_test->age_hold("k", 1, 30s);
  const auto outcome = t.free_now("k", first.token);
  REQUIRE(std::holds_alternative<Revoked>(outcome));
  CHECK(std::get<Revoked>(outcome).status.owner == "slot-1");
  CHECK(owners(t) == Owners{"slot-2"});
  CHECK_FALSE(renewed(t.renew(ref_to(first))));
  CHECK(refused(t.free_now("k", first.token)) == ForceRefused::Why::wrong_token);
  CHECK(renewed(t.renew(ref_to(second))));
  CHECK(t.grant(takes_slot("k", "slot-3", 2)).slot == 1);
}

STORE_CASE("a success under a slot is the lock's last success, and done for the period", "[all-of-dblock]") {
  Fixture t;
  auto once = takes_slot("k", "owner-1", 2);
  once.promises.once_per = OncePer{10h};
  const Lease failed = t.grant(once);
  CHECK(released(t.release(ref_to(failed), Actor::holder, {RunOutcome::failed, 1})));
  CHECK_FALSE(t.row("k").last_success);
  const Lease lease = t.grant(once);
  const auto held = *holder(t, "k", "owner-1");
  CHECK(released(t.release(ref_to(lease), Actor::holder, {RunOutcome::succeeded, 0})));
  const auto row = t.row("k");
  REQUIRE(row.last_success);
  CHECK(row.last_success->acquired_at == held.acquired_at);
  CHECK(row.last_success->released_at);
  CHECK(row.last->outcome == RunOutcome::succeeded);
  once.owner.text = "owner-2";
  CHECK(std::holds_alternative<Done>(t.acquire(once)));
  CHECK(std::holds_alternative<Done>(look(t, once)));
  t.grant(takes_slot("k", "owner-3", 2));  // which made no promise
  auto exclusive = asks("l", "owner-4");
  exclusive.promises.once_per = OncePer{10h};
  t.grant(exclusive);
  t.under_test->age("k", 9h, false);
  t.grant(once);
}

STORE_CASE("when a lock turns exclusive its own row takes over what its slots have succeeded in") {
  Fixture t;
  t.grant(takes_slot("k", "owner-1", 2));
  const Lease second = t.grant(takes_slot("k", "owner-2", 2));
  CHECK(released(t.release(ref_to(second), Actor::holder, {RunOutcome::succeeded, 0})));
  CHECK(released(t.release({key("k"), {"owner-1"}, std::nullopt}, Actor::holder, {RunOutcome::failed, 1})));
  const Lease writer = t.grant(asks("k", "writer"));
  CHECK(t.row("k").last->outcome == RunOutcome::failed);
  CHECK(released(t.release(ref_to(writer), Actor::holder, {RunOutcome::failed, 2})));
  auto once = asks("k", "once");
  once.promises.once_per = OncePer{10h};
  CHECK(std::holds_alternative<Done>(t.acquire(once)));
  once.promises.once_per.reset();
  t.grant(once);
}

STORE_CASE("of several keys each counts the failures of its own runs", "[all-of-dblock]") {
  Fixture t;
  CHECK(released(t.release(ref(t.grant(asks("a", "alone"))), Actor::holder, {RunOutcome::failed, 1})));
  for (const bool by_rows : {true, false}) {
    const Lease lease = t.grant(asks_for_all({"a", "b"}, "owner"));
    auto ref = ref_to(lease);
    if (!by_rows) ref.mode.reset();
    CHECK(released(t.release(ref, Actor::holder, {RunOutcome::failed, 1})));
  }
  CHECK(t.row("a").last->failures == 3);
  CHECK(t.row("b").last->failures == 2);
}

STORE_CASE(
    "of several holders and keys each row tells of its own holder's command, of which a nested run tells "
    "nothing",
    "[all-of-dblock]") {
  Fixture t;
  const lease::JobNews news{BootClock::now()};
  const auto tell = [&](const lease::LeaseRef& ref) {
    CHECK(renewed(t.renew(ref, Actor::holder, std::nullopt, Micros{0}, news)));
  };
  t.grant(takes_slot("k", "owner-1", 2));
  tell(ref_to(t.grant(takes_slot("k", "owner-2", 2))));
  for (const auto& row : t.rows()) CHECK(row.job_ended_at.has_value() == (row.owner == "owner-2"));
  tell(ref_to(t.grant(asks_for_all({"a", "b"}, "owner-3"))));
  CHECK((t.row("a").job_ended_at && t.row("b").job_ended_at));
  const Lease outer = t.grant(asks("n", "outer"));
  LeaseRequest inner = asks("n", "inner");
  inner.outer = outer.owner;
  const auto nested = t.store->nest(inner);
  REQUIRE((nested && *nested));
  tell(ref_to(**nested));
  CHECK_FALSE(t.row("n").job_ended_at);
}

STORE_CASE("when a lock turns exclusive its own row goes on counting the failures of its last run") {
  Fixture t;
  const bool is_released = GENERATE(true, false);
  for (int i = 0; i < 2; ++i) {
    const Lease run = t.grant(takes_slot("k", "slot", 2));
    if (is_released || i == 0)
      CHECK(released(t.release(ref_to(run), Actor::holder, {RunOutcome::failed, 1})));
  }
  t.under_test->age("k", 80s, false);
  const Lease writer = t.grant(asks("k", "writer"));
  CHECK(t.row("k").last->failures == 2);
  CHECK(released(t.release(ref_to(writer), Actor::holder, {RunOutcome::failed, 2})));
  CHECK(t.row("k").last->failures == 3);
}

STORE_CASE("what a slot has succeeded in is known for as long as its lock is, and forgotten with it",
           "[all-of-dblock]") {
  Fixture t;
  const Lease first = t.grant(takes_slot("k", "owner-1", 2));
  const Lease second = t.grant(takes_slot("k", "owner-2", 2));
  CHECK(released(t.release(ref_to(second), Actor::holder, {RunOutcome::succeeded, 0})));
  CHECK(released(t.release(ref_to(first), Actor::holder, {RunOutcome::failed, 1})));
  t.under_test->age("k", 1000h, true);
  const Lease third = t.grant(takes_slot("k", "owner-3", 2));
  CHECK(third.slot == 1);
  for (const bool dry : {true, false}) CHECK(t.reap(dry, 48h).forgotten == 0);
  CHECK(holder(t, "k", "owner-3")->last_success);
  CHECK(released(t.release(ref_to(third), Actor::holder, {RunOutcome::failed, 1})));
  t.under_test->age("k", 1000h, true);
  for (const bool dry : {true, false}) CHECK(t.reap(dry, 48h).forgotten == 3);
  CHECK(t.rows({{}, {}, false}).empty());
}

STORE_CASE("a lock is not forgotten within the period of a success under a slot", "[all-of-dblock]") {
  Fixture t;
  auto once = takes_slot("k", "owner-1", 2);
  once.promises.once_per = OncePer{1000h};
  CHECK(released(t.release(ref_to(t.grant(once)), Actor::holder, {RunOutcome::succeeded, 0})));
  t.under_test->age("k", 500h, true);
  static_cast<void>(t.reap(false, 48h));
  once.owner.text = "owner-2";
  CHECK(std::holds_alternative<Done>(t.acquire(once)));
  t.under_test->age("k", 600h, true);
  CHECK(t.reap(false, 48h).forgotten > 0);
  t.grant(once);
}

STORE_CASE("a slot keeps its place for its minimal hold") {
  Fixture t;
  auto request = takes_slot("k", "owner-1", 2);
  request.promises.min_hold = 1h;
  CHECK(released(t.release(ref_to(t.grant(request)))));
  const Lease second = t.grant(takes_slot("k", "owner-2", 2));
  CHECK(second.slot == 2);
  CHECK(t.conflict(takes_slot("k", "owner-3", 2)).status.slot > 0);
  const auto rows = t.rows({{key("k")}, {}, false});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].state == State::cooldown);
  CHECK(rows[0].slot == 1);
  CHECK(rows[1].owner == "owner-2");
  CHECK(released(t.release(ref_to(second))));
  const Held refusal = t.conflict(asks("k", "writer"));
  CHECK(refusal.status.state == State::cooldown);
  CHECK(refusal.status.grantable_at() == refusal.status.hold_until);
  t.under_test->age("k", 1h, false);
  t.grant(asks("k", "writer"));
}

STORE_CASE("a slot's cooldown is not believed once the clock was set back and it is too long") {
  Fixture t;
  const bool after_failure = GENERATE(false, true);
  CAPTURE(after_failure);
  auto request = takes_slot("k", "owner-1", 1);
  if (!after_failure) request.promises.min_hold = 1h;
  const RunEnd end{RunOutcome::failed, 3, after_failure ? 1h : 0h};
  for (const auto& next : {takes_slot("k", "owner-2", 1), asks("k", "writer")}) {
    CAPTURE(to_string(next.sharing.mode));
    CHECK(released(t.release(ref_to(t.grant(request)), Actor::holder, end)));
    CHECK(t.conflict(next).status.state == State::cooldown);
    t.under_test->age("k", -3h, false);
    CHECK(released(t.release(ref_to(t.grant(next)))));
  }
}

STORE_CASE("the cooldown of a slot is ended by force, and the other holders keep theirs", "[all-of-dblock]") {
  Fixture t;
  auto request = takes_slot("k", "owner-1", 2);
  request.promises.min_hold = 1h;
  const Lease first = t.grant(request);
  request.owner.text = "owner-2";
  const Lease second = t.grant(request);
  CHECK(released(t.release(ref_to(first))));
  CHECK(released(t.release(ref_to(second))));
  CHECK(refused(t.revoke("k", {first.token.value - 1})) == ForceRefused::Why::wrong_token);
  CHECK(std::holds_alternative<Revoked>(t.revoke("k", first.token)));
  const auto rows = t.rows({{key("k")}, {}, false});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].state == State::cooldown);
  CHECK(rows[0].token == second.token);
  CHECK(t.grant(takes_slot("k", "owner-3", 2)).slot == 1);
  t.conflict(takes_slot("k", "owner-4", 2));
}

STORE_CASE("a reader's minimal hold keeps writers out and no readers", "[all-of-dblock]") {
  Fixture t;
  auto request = reads("k", "reader-1");
  request.promises.min_hold = 1h;
  CHECK(released(t.release(ref_to(t.grant(request)))));
  CHECK(t.conflict(asks("k", "writer")).status.state == State::cooldown);
  CHECK(released(t.release(ref_to(t.grant(reads("k", "reader-2"))))));
  t.under_test->age("k", 59min, false);
  t.conflict(asks("k", "writer"));
  t.under_test->age("k", 1min, false);
  t.grant(asks("k", "writer"));
}

STORE_CASE("a writer's minimal hold keeps readers out", "[all-of-dblock]") {
  Fixture t;
  auto request = asks("k", "writer");
  request.promises.min_hold = 1h;
  CHECK(released(t.release(ref(t.grant(request)))));
  CHECK(t.conflict(reads("k", "reader")).status.state == State::cooldown);
  CHECK(t.conflict(takes_slot("k", "slot", 2)).status.state == State::cooldown);
  t.under_test->age("k", 1h, false);
  t.grant(reads("k", "reader"));
}

STORE_CASE("looking tells what a request would meet, and changes nothing", "[all-of-dblock]") {
  Fixture t;
  CHECK(std::holds_alternative<Free>(look(t, reads("k", "reader-1"))));
  CHECK(std::holds_alternative<Free>(look(t, asks_for_all({"k", "l"}, "owner"))));
  CHECK(t.rows({{}, {}, false}).empty());
  const Lease first = t.grant(reads("k", "reader-1"));
  const auto own = look(t, reads("k", "reader-1"));
  REQUIRE(std::holds_alternative<Granted>(own));
  CHECK(std::get<Granted>(own).lease.token == first.token);
  CHECK(std::get<Granted>(own).row->token == first.token);
  CHECK(std::holds_alternative<Free>(look(t, reads("k", "reader-2"))));
  for (const auto& request : {asks("k", "writer"), asks_for_all({"k", "l"}, "owner")}) {
    const auto refused_by = look(t, request);
    REQUIRE(std::holds_alternative<Held>(refused_by));
    CHECK(std::get<Held>(refused_by).status.owner == "reader-1");
  }
  t.grant(reads("k", "reader-2"));
  CHECK(t.row("k").sharing.mode == Mode::shared);
  CHECK_FALSE(t.row("k").owner.empty());
}

STORE_CASE("an exclusive lock that was shared is an ordinary one again") {
  Fixture t;
  CHECK(released(t.release(ref_to(t.grant(takes_slot("k", "slot", 2))))));
  Token last;
  for (const auto* const owner : {"owner-1", "owner-2", "owner-3"}) {
    const Lease lease = t.grant(asks("k", owner));
    CHECK(lease.token > last);
    last = lease.token;
    CHECK(t.row("k").owner == owner);
    CHECK(t.row("k").sharing.mode == Mode::exclusive);
    CHECK(renewed(t.renew(ref(lease))));
    CHECK(released(t.release(ref(lease))));
  }
  CHECK(t.rows({{}, {}, false}).size() == 1);
}

}  // namespace dblock::contract
