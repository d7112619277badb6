// Who may have a lock beside whom: the rules, on views of it that are made by hand.
#include "store/rules/sharing.hpp"

#include <algorithm>

#include "support/catch.hpp"

namespace dblock::store {
namespace {

using namespace std::chrono_literals;
using lease::LeaseRequest;
using lease::LockStatus;
using lease::Mode;
using lease::ServerTime;
using lease::Sharing;

constexpr ServerTime k_now{1000h};
constexpr Micros k_margin = 3s;

ServerTime at(Micros from_now) {
  return {k_now.since_epoch + from_now};
}

LockStatus free_row() {
  LockStatus row;
  row.key = "k";
  row.server_time = k_now;
  row.state = state_of(row);
  return row;
}

// Its lease ends `left` from now.
LockStatus held_row(const std::string& owner, Sharing sharing, std::uint32_t slot, Micros left = 60s) {
  LockStatus row = free_row();
  row.owner = owner;
  row.sharing = sharing;
  row.slot = slot;
  row.expires_at = at(left);
  row.margin = k_margin;
  row.state = state_of(row);
  return row;
}

constexpr Sharing k_exclusive{};
constexpr Sharing k_shared{Mode::shared, 1};
constexpr Sharing slots(std::uint32_t count) {
  return {Mode::slot, count};
}

LockRows scene(Sharing sharing = {}, std::vector<LockStatus> holders = {}) {
  LockRows seen{free_row(), std::move(holders)};
  seen.own_row.sharing = sharing;
  return seen;
}

LockRows held_by_readers(std::vector<std::uint32_t> numbers) {
  LockRows seen = scene(k_shared);
  for (const auto number : numbers)
    seen.holders.push_back(held_row("reader-" + std::to_string(number), k_shared, number));
  return seen;
}

LockRows held_slots(std::uint32_t count, std::vector<std::uint32_t> numbers) {
  LockRows seen = scene(slots(count));
  for (const auto number : numbers)
    seen.holders.push_back(held_row("slot-" + std::to_string(number), slots(count), number));
  return seen;
}

LockRows held_alone(Micros left = 60s) {
  LockRows seen = scene();
  seen.own_row = held_row("writer", k_exclusive, 0, left);
  return seen;
}

LeaseRequest asks(Sharing sharing, std::string owner = "asker") {
  LeaseRequest request{.key = *lease::Key::parse("k"), .owner = {std::move(owner)}};
  request.sharing = sharing;
  return request;
}

template <typename Kind>
Kind decided(const LockRows& seen, const LeaseRequest& request) {
  auto answer = answer_for(seen, request);
  if (!answer) FAIL(answer.error().message);
  REQUIRE(std::holds_alternative<Kind>(*answer));
  return std::get<Kind>(std::move(*answer));
}

bool is_done(const LockRows& seen, const LeaseRequest& request) {
  const auto answer = answer_for(seen, request);
  return answer && std::holds_alternative<lease::Done>(*answer);
}

// Why the lock could not even be waited for.
std::string mismatch(const LockRows& seen, const LeaseRequest& request) {
  const auto answer = answer_for(seen, request);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == Errc::usage);
  return answer.error().message;
}

std::uint32_t slot_for(const LockRows& seen, const LeaseRequest& request) {
  return decided<lease::Free>(seen, request).slot;
}

std::string refusing_holder(const LockRows& seen, const LeaseRequest& request) {
  return decided<lease::Held>(seen, request).status.owner;
}

}  // namespace

TEST_CASE("sharing: a lock that nobody has is there for every kind") {
  for (const auto& last : {k_exclusive, k_shared, slots(2)}) {
    CHECK(slot_for(scene(last), asks(k_exclusive)) == 0);
    CHECK(slot_for(scene(last), asks(k_shared)) == 1);
    CHECK(slot_for(scene(last), asks(slots(3))) == 1);
  }
}

TEST_CASE("sharing: until its margin is over a lease keeps other kinds out, and then no longer", "[safety]") {
  for (const auto& held : {k_shared, slots(2)}) {
    for (const auto& asked : {k_exclusive, k_shared, slots(2), slots(3)}) {
      if (asked == held) continue;
      INFO(to_string(held.mode) << ", asked " << to_string(asked.mode) << " " << asked.slots);
      CHECK(refusing_holder(scene(held, {held_row("late", held, 1, -1s)}), asks(asked)) == "late");
      CHECK(decided<lease::Free>(scene(held, {held_row("late", held, 1, -k_margin)}), asks(asked)).slot <= 1);
    }
  }
}

TEST_CASE("sharing: a place that cools down keeps other kinds out") {
  for (const auto& held : {k_shared, slots(2)}) {
    LockStatus cooling = free_row();
    cooling.slot = 1;
    cooling.sharing = held;
    cooling.hold_until = at(10s);
    cooling.state = state_of(cooling);
    for (const auto& asked : {k_exclusive, k_shared, slots(2), slots(3)}) {
      if (asked == held) continue;
      INFO(to_string(held.mode) << ", asked " << to_string(asked.mode) << " " << asked.slots);
      CHECK(decided<lease::Held>(scene(held, {cooling}), asks(asked)).status.hold_until == at(10s));
    }
  }
}

TEST_CASE("sharing: who waits for several is told of all of them") {
  const auto conflict = decided<lease::Held>(held_by_readers({1, 2, 3}), asks(k_exclusive));
  CHECK(conflict.status.other_owners.size() == 2);
}

TEST_CASE("sharing: rows of holders who are gone are in nobody's way", "[safety]") {
  LockStatus left = free_row();
  left.slot = 1;
  const LockRows seen = scene(slots(1), {left});
  CHECK(slot_for(seen, asks(k_exclusive)) == 0);
  CHECK(slot_for(seen, asks(slots(1))) == 1);
  CHECK(slot_for(seen, asks(slots(5))) == 1);
}

TEST_CASE("sharing: an exclusive holder refuses readers and writers, and is another kind than slots",
          "[safety]") {
  const LockRows seen = held_alone();
  CHECK(refusing_holder(seen, asks(k_exclusive)) == "writer");
  CHECK(refusing_holder(seen, asks(k_shared)) == "writer");
  const std::string why = mismatch(seen, asks(slots(2)));
  CHECK(why.find("held exclusively (by 1)") != std::string::npos);
  CHECK(why.find("--slots 2") != std::string::npos);
  CHECK(why.find("\"k\"") != std::string::npos);
}

TEST_CASE("sharing: an expired exclusive lease refuses everybody for its margin, and nobody after it",
          "[safety]") {
  for (const auto& sharing : {k_exclusive, k_shared, slots(2)}) {
    CHECK(refusing_holder(held_alone(0s), asks(sharing)) == "writer");
    CHECK(refusing_holder(held_alone(-k_margin + 1us), asks(sharing)) == "writer");
    CHECK(std::holds_alternative<lease::Free>(*answer_for(held_alone(-k_margin), asks(sharing))));
  }
}

TEST_CASE("sharing: a cooldown of the lock's own row refuses everybody until it is over") {
  LockRows seen = scene();
  seen.own_row.hold_until = at(1us);
  seen.own_row.state = state_of(seen.own_row);
  for (const auto& sharing : {k_exclusive, k_shared, slots(2)})
    CHECK(decided<lease::Held>(seen, asks(sharing)).status.state == lease::State::cooldown);
  seen.own_row.hold_until = k_now;
  seen.own_row.state = state_of(seen.own_row);
  CHECK(slot_for(seen, asks(k_shared)) == 1);
}

TEST_CASE("sharing: a pause refuses every kind, and a holder is named before it") {
  const auto paused = [](LockRows seen) {
    seen.own_row.pause = lease::Pause{{"k", false}, at(1h), {}, {}, {}};
    return seen;
  };
  for (const auto& sharing : {k_exclusive, k_shared, slots(2)}) {
    for (const auto& free : {scene(), scene(slots(1)), held_alone(-k_margin)}) {
      const auto refused = decided<lease::Held>(paused(free), asks(sharing)).status;
      CHECK(refused.only_paused());
      CHECK(refused.slot == 0);
    }
  }
  const auto held = decided<lease::Held>(paused(held_by_readers({1, 2})), asks(k_exclusive)).status;
  CHECK(held.owner == "reader-1");
  CHECK_FALSE(held.only_paused());
  CHECK(held.pause->until == at(1h));
  CHECK(decided<lease::Held>(paused(held_by_readers({1, 2})), asks(k_shared)).status.only_paused());
}

TEST_CASE("sharing: readers go together, on the lowest free number", "[safety]") {
  CHECK(slot_for(held_by_readers({1, 2}), asks(k_shared)) == 3);
  CHECK(slot_for(held_by_readers({2, 3}), asks(k_shared)) == 1);
  CHECK(slot_for(held_by_readers({1, 3}), asks(k_shared)) == 2);
}

TEST_CASE("sharing: a writer is refused by the reader who has longest to go") {
  LockRows seen = held_by_readers({1, 2, 3});
  seen.holders[1].expires_at = at(2min);
  CHECK(refusing_holder(seen, asks(k_exclusive)) == "reader-2");
  for (auto& holder : seen.holders) {
    holder.expires_at = at(-k_margin);
    holder.state = state_of(holder);
  }
  CHECK(slot_for(seen, asks(k_exclusive)) == 0);
  seen.holders[2].expires_at = at(-k_margin + 1us);
  CHECK(refusing_holder(seen, asks(k_exclusive)) == "reader-3");
}

TEST_CASE("sharing: slots are given lowest first, up to their number", "[safety]") {
  CHECK(slot_for(held_slots(3, {1}), asks(slots(3))) == 2);
  CHECK(slot_for(held_slots(3, {2, 3}), asks(slots(3))) == 1);
  CHECK(slot_for(held_slots(3, {1, 2}), asks(slots(3))) == 3);
  LockRows full = held_slots(2, {1, 2});
  full.holders[0].expires_at = at(2min);
  CHECK(refusing_holder(full, asks(slots(2))) == "slot-2");  // who will be gone first
}

TEST_CASE("sharing: an expired slot is taken over after its margin, with its number", "[safety]") {
  LockRows seen = held_slots(2, {1, 2});
  seen.holders[0] = held_row("slot-1", slots(2), 1, -k_margin + 1us);
  CHECK(refusing_holder(seen, asks(slots(2))) == "slot-1");
  seen.holders[0] = held_row("slot-1", slots(2), 1, -k_margin);
  CHECK(slot_for(seen, asks(slots(2))) == 1);
}

TEST_CASE("sharing: a slot that cools down is taken") {
  LockRows seen = scene(slots(2));
  LockStatus cooling = free_row();
  cooling.slot = 1;
  cooling.sharing = slots(2);
  cooling.hold_until = at(1h);
  cooling.state = state_of(cooling);
  seen.holders.push_back(cooling);
  CHECK(slot_for(seen, asks(slots(2))) == 2);
  CHECK(std::holds_alternative<lease::Held>(*answer_for(seen, asks(slots(1)))));
  CHECK(std::holds_alternative<lease::Held>(*answer_for(seen, asks(k_exclusive))));
}

TEST_CASE("sharing: a number of slots, or another kind, that the holders did not agree on is a mismatch",
          "[safety]") {
  const LockRows seen = held_slots(4, {1, 2});
  for (const auto& sharing : {slots(3), slots(5), k_shared, k_exclusive}) {
    const std::string why = mismatch(seen, asks(sharing));
    CHECK(why.find("held with --slots 4 (by 2)") != std::string::npos);
  }
  CHECK(mismatch(seen, asks(slots(5))).find("--slots 5") != std::string::npos);
  CHECK(mismatch(seen, asks(k_shared)).find("--shared") != std::string::npos);
  CHECK(mismatch(held_by_readers({1}), asks(slots(2))).find("--shared") != std::string::npos);
}

TEST_CASE("sharing: leases in their margin are waited out, and no mismatch", "[safety]") {
  LockRows seen = held_slots(2, {1});
  seen.holders[0] = held_row("slot-1", slots(2), 1, -1s);
  CHECK(refusing_holder(seen, asks(k_exclusive)) == "slot-1");
  CHECK(refusing_holder(seen, asks(slots(1))) == "slot-1");
  seen.holders[0] = held_row("slot-1", slots(2), 1, -k_margin);
  CHECK(slot_for(seen, asks(slots(7))) == 1);
}

TEST_CASE("sharing: the request's own lease is found, wherever it is and whatever else is in the way",
          "[safety]") {
  CHECK(decided<lease::Granted>(held_alone(), asks(k_exclusive, "writer")).row->owner == "writer");
  CHECK(decided<lease::Granted>(held_slots(2, {1, 2}), asks(slots(2), "slot-2")).row->slot == 2);
  CHECK(decided<lease::Granted>(held_by_readers({1, 2}), asks(k_shared, "reader-1")).row->slot == 1);
}

namespace {

// Requests that have waited for a minute, one after the other.
std::vector<lease::Place> line_of(std::size_t count, Sharing sharing) {
  std::vector<lease::Place> places;
  for (std::size_t i = 0; i < count; ++i) {
    lease::Place place{
        .key = "k", .owner = {"waiter-" + std::to_string(i)}, .sharing = sharing, .waiter = {}};
    place.waiter.since = at(-1min + i * 1s);
    places.push_back(std::move(place));
  }
  return places;
}

// The same rows as they are when the lock's own row, and each free row of a holder, was freed this long ago.
LockRows freed(LockRows seen, Micros ago) {
  const auto free = [&](LockStatus& row) {
    if (row.owner.empty()) row.refused_until = at(-ago);
  };
  free(seen.own_row);
  for (auto& holder : seen.holders) free(holder);
  return seen;
}

LockStatus free_slot(std::uint32_t number, Micros ago) {
  LockStatus row = free_row();
  row.slot = number;
  row.refused_until = at(-ago);
  return row;
}

}  // namespace

TEST_CASE("sharing: a free lock is for those who wait before the request, and then for the request",
          "[safety]") {
  const LockRows seen = freed(scene(), 1s);
  const auto line = line_of(2, k_exclusive);
  CHECK(is_for_others(seen, asks(k_exclusive), line));
  CHECK(is_for_others(seen, asks(k_shared), line));
  auto second = asks(k_exclusive, "waiter-1");
  second.arrival = line[1].waiter.since;
  CHECK(is_for_others(seen, second, line));
  auto first = asks(k_exclusive, "waiter-0");
  first.arrival = line[0].waiter.since;
  CHECK_FALSE(is_for_others(seen, first, line));
  CHECK_FALSE(is_for_others(seen, asks(k_exclusive), {}));
}

TEST_CASE("sharing: new readers are refused as long as a writer waits, whoever is left", "[safety]") {
  for (const auto& seen : {held_by_readers({1}), freed(scene(k_shared), 1s)}) {
    CHECK(is_for_others(seen, asks(k_shared), line_of(1, k_exclusive)));
    CHECK_FALSE(is_for_others(seen, asks(k_shared), line_of(3, k_shared)));
  }
  // However long ago anything was freed: the reader's lease is not.
  LockRows with_reader = freed(held_by_readers({2}), 1h);
  with_reader.holders.push_back(free_slot(3, 1h));
  CHECK(is_for_others(with_reader, asks(k_shared), line_of(1, k_exclusive)));
}

TEST_CASE("sharing: a lock that nobody has taken for three seconds is for whoever asks", "[safety]") {
  const auto line = line_of(2, k_exclusive);
  for (const auto& sharing : {k_exclusive, k_shared}) {
    CHECK(is_for_others(freed(scene(), 3s - 1us), asks(sharing), line));
    CHECK_FALSE(is_for_others(freed(scene(), 3s), asks(sharing), line));
    LockRows last_reader_left = freed(scene(k_shared), 1h);
    last_reader_left.holders = {free_slot(1, 3s - 1us)};
    CHECK(is_for_others(last_reader_left, asks(sharing), line));
    last_reader_left.holders = {free_slot(1, 3s)};
    CHECK_FALSE(is_for_others(last_reader_left, asks(sharing), line));
  }
}

TEST_CASE("sharing: as many free slots are for others as wait before the request", "[safety]") {
  const auto is_for = [](std::size_t waiting, std::vector<std::uint32_t> taken) {
    LockRows seen = freed(held_slots(4, std::move(taken)), 1s);
    return is_for_others(seen, asks(slots(4)), line_of(waiting, slots(4)));
  };
  CHECK_FALSE(is_for(0, {1, 2, 3}));
  CHECK(is_for(1, {1, 2, 3}));
  CHECK_FALSE(is_for(1, {1, 2}));
  CHECK(is_for(2, {1, 2}));
  CHECK(is_for(9, {}));
}

TEST_CASE("sharing: a slot that nobody has taken for three seconds is for whoever asks") {
  const auto line = line_of(4, slots(2));
  const auto is_for = [&](std::vector<LockStatus> holders, Micros own_row_freed = 1s) {
    LockRows seen = freed(scene(slots(2)), own_row_freed);
    seen.holders = std::move(holders);
    return is_for_others(seen, asks(slots(2)), line);
  };
  const LockStatus taken = held_row("slot-1", slots(2), 1);
  CHECK(is_for({taken, free_slot(2, 3s - 1us)}));
  CHECK_FALSE(is_for({taken, free_slot(2, 3s)}));
  // The second was never granted: its time counts from the lock's own row.
  CHECK(is_for({taken}, 3s - 1us));
  CHECK_FALSE(is_for({taken}, 3s));
  CHECK(is_for({taken, free_slot(2, 1s)}, 1h));
  // A transaction of its last holder keeps the slot.
  LockStatus fenced = free_slot(2, 1h);
  fenced.kept_by_transaction = true;
  CHECK(is_for({taken, fenced}));
}

// Their places are removed with the grant.
TEST_CASE("sharing: a grant passes those before it, unless enough slots are left for them") {
  const LockRows two_free = held_slots(4, {1, 2});
  CHECK(passes_others(two_free, asks(slots(4)), line_of(2, slots(4))));
  CHECK_FALSE(passes_others(two_free, asks(slots(4)), line_of(1, slots(4))));
  for (const auto& sharing : {k_exclusive, k_shared, slots(4)})
    CHECK_FALSE(passes_others(scene(), asks(sharing), {}));
  for (const auto& sharing : {k_exclusive, k_shared})
    CHECK(passes_others(scene(), asks(sharing), line_of(1, k_exclusive)));
  CHECK_FALSE(passes_others(scene(k_shared), asks(k_shared), line_of(1, k_shared)));
}

TEST_CASE("sharing: a success within the period is told before who is in the way") {
  auto once = asks(slots(2));
  once.promises.once_per = lease::OncePer{10h};
  const lease::PastRun success{at(-1h), at(-30min), lease::RunOutcome::succeeded, 0};
  for (auto seen : {held_alone(), held_slots(2, {1, 2}), held_by_readers({1}), scene()}) {
    seen.own_row.last_success = success;
    CHECK(is_done(seen, once));
    CHECK_FALSE(is_done(seen, asks(slots(2))));
  }
}

// Dated ahead by a clock that was set back since, or by another server's.
TEST_CASE("sharing: of successes under several rows each that lies within the period counts") {
  const lease::PastRun recent{at(-5min), at(-4min), lease::RunOutcome::succeeded, 0};
  const lease::PastRun old{at(-20h), at(-20h), lease::RunOutcome::succeeded, 0};
  const lease::PastRun far_ahead{at(1h), at(1h), lease::RunOutcome::succeeded, 0};
  const lease::PastRun just_ahead{at(1s), at(2s), lease::RunOutcome::succeeded, 0};
  struct Case {
    std::vector<lease::PastRun> successes;
    Micros period;
    bool done;
  };
  for (const auto& [successes, period, done] :
       {Case{{recent, far_ahead}, 30min, true}, Case{{old, just_ahead}, 1h, true},
        Case{{old, recent, far_ahead}, 1h, true}, Case{{old, far_ahead}, 24h, true},
        Case{{old, far_ahead}, 9h, false}, Case{{recent, just_ahead}, 9s, false}}) {
    for (const bool backwards : {false, true}) {
      LockRows seen = scene(slots(3));
      for (const auto& success : successes) {
        seen.holders.push_back(free_row());
        seen.holders.back().slot = static_cast<std::uint32_t>(seen.holders.size());
        seen.holders.back().last_success = success;
      }
      if (backwards) std::ranges::reverse(seen.holders);
      std::swap(seen.own_row.last_success, seen.holders.front().last_success);
      auto once = asks(slots(3));
      once.promises.once_per = lease::OncePer{period};
      CAPTURE(period.count(), backwards);
      CHECK(is_done(seen, once) == done);
    }
  }
}

}  // namespace dblock::store
