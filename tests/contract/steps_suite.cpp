// The contract where something happens between two statements of one call: a row is read, and is another when
// it is written, or when its reason is asked for.
#include <algorithm>
#include <thread>

#include "contract/stepped_database.hpp"
#include "contract/store_fixture.hpp"
#include "lease/release.hpp"
#include "support/config.hpp"

namespace dblock::contract {
namespace {

constexpr RunEnd k_ended_well{RunOutcome::succeeded, 0};

// Who holds which row, and until when; a line each, for free locks too.
std::string all_rows(Fixture& t) {
  std::string text;
  const auto time = [](const std::optional<ServerTime>& at) { return at ? format_time(*at) : "-"; };
  for (const auto& row : t.rows({{}, {}, false})) {
    text += row.key + "#" + std::to_string(row.slot) + " " + row.owner + " " +
            std::to_string(row.token.value) + " " + std::to_string(row.count) + " " +
            std::string(to_string(row.sharing.mode)) + std::to_string(row.sharing.slots) + " until " +
            time(row.expires_at) + ", renewed " + time(row.renewed_at) + "\n";
  }
  return text;
}

// Expired leases, and a grant that must free all of them first, because it is of another kind.
struct Succession {
  std::vector<LeaseRequest> expired;
  LeaseRequest next;
  int leases;  // in rows
};

LeaseRequest shared_by(LeaseRequest request, Sharing sharing) {
  request.sharing = sharing;
  return request;
}

std::vector<Succession> successions() {
  const auto both = [](const char* owner) { return asks_for_all({"a", "b"}, owner); };
  return {{{asks("a", "gone")}, reads("a", "next"), 1},
          {{asks("a", "gone")}, takes_slot("a", "next", 2), 1},
          {{reads("a", "gone"), reads("a", "also gone")}, asks("a", "next"), 2},
          {{takes_slot("a", "gone", 2), takes_slot("a", "also gone", 2)}, takes_slot("a", "next", 3), 2},
          {{reads("a", "gone"), reads("b", "gone")}, both("next"), 2},
          {{both("gone")}, shared_by(both("next"), {Mode::shared, 1}), 2}};
}

// A run under a lease, on its first key or on its last.
LeaseRequest nested_in(const Lease& outer, bool on_last_key) {
  auto inner =
      asks(on_last_key && !outer.further_keys.empty() ? outer.further_keys.back().bytes() : outer.key.bytes(),
           "inner");
  inner.sharing = outer.sharing;
  inner.outer = outer.owner;
  return inner;
}

Lease begin_nested(Fixture& t, const LeaseRequest& inner) {
  auto nested = t.store->nest(inner);
  if (!nested) FAIL(nested.error().message);
  REQUIRE(nested->has_value());
  return **nested;
}

bool is_look(Verb verb) {
  return verb == Verb::look || verb == Verb::look_all || verb == Verb::look_in_line;
}

bool is_release(Verb verb) {
  return verb == Verb::release || verb == Verb::release_rows || verb == Verb::release_keys;
}

// Acts at the look with this number.
Step at_look(int number, std::function<void()> act) {
  return [number, act = std::move(act), looks = 0](Verb verb) mutable -> std::optional<store::Effect> {
    if (is_look(verb) && ++looks == number) act();
    return std::nullopt;
  };
}

// As a run releases its lease. Whatever it would say is a failure of the case.
RetriedRelease release_as_a_run(LockBook& store, const Lease& lease) {
  SystemClock clock;
  const WakeEvent never;
  std::vector<std::string> said;
  ReleaseOptions how{.end = k_ended_well, .give_up = clock.now() + 10s};
  how.on_trouble = [&said](const Error& error) { said.push_back(error.message); };
  auto given = release_with_retries(store, clock, ref_to(lease), how, never);
  CHECK(said == std::vector<std::string>{});
  return given;
}

std::vector<LeaseRequest> outer_requests() {
  const auto both = asks_for_all({"a", "b"}, "outer");
  return {asks("a", "outer"), reads("a", "outer"), takes_slot("a", "outer", 2), both,
          shared_by(both, {Mode::shared, 1})};
}

}  // namespace

STORE_CASE("a grant that cannot free each expired lease before it is undone as a whole", "[safety]") {
  Fixture t;
  t.under_test->keep_history(true);
  const auto scene = GENERATE(from_range(successions()));
  CAPTURE(to_string(scene.expired.front().sharing.mode), to_string(scene.next.sharing.mode));
  for (const auto& request : scene.expired) t.grant(request);
  for (const auto* const name : {"a", "b"}) t.under_test->age(name, 2min, false);
  const auto before = all_rows(t);
  for (int not_freed = 1; not_freed <= scene.leases; ++not_freed) {
    CAPTURE(not_freed);
    // As when the lease was renewed since it was looked at, or the clock was set back.
    const auto store = open_stepped(*t.under_test, [&, seen = 0](Verb verb) mutable {
      const bool in_vain = verb == Verb::abandon && ++seen == not_freed;
      return in_vain ? std::optional(store::Effect{}) : std::nullopt;
    });
    const auto undone = store->try_acquire(scene.next);
    REQUIRE_FALSE(undone);
    CHECK(undone.error().code == Errc::unreachable);
    CHECK(undone.error().message.find("its rows changed while they were locked") != std::string::npos);
    store->end();
    CHECK(all_rows(t) == before);
    CHECK(t.store->history({})->runs.empty());
    CHECK(row_of(*store, key("a")));  // the session is sound
  }
  t.grant(scene.next);
  for (const auto& owner : owners(t)) CHECK(owner == "next");
}

STORE_CASE("a reap frees and reports no lease that was renewed, released or taken over since it looked",
           "[safety]") {
  Fixture t;
  const auto request = GENERATE(asks("k", "gone"), reads("k", "gone"), takes_slot("k", "gone", 1));
  CAPTURE(to_string(request.sharing.mode));
  const Lease gone = t.grant(request);
  t.under_test->age("k", 2min, false);
  auto next = request;
  next.owner.text = "next";
  const std::vector<std::function<void()>> changes{
      [&] { t.under_test->age("k", -Micros{2min}, false); },  // renewed: sent in time, and come late
      [&] { CHECK(released(t.release(ref_to(gone)))); }, [&] { t.grant(next); },
      [&] {
        t.grant(next);
        t.under_test->age("k", 2min, false);  // which has expired in its turn
      }};
  const auto& change = changes.at(GENERATE(0U, 1U, 2U, 3U));
  std::string then;
  const auto store = open_stepped(*t.under_test, once_before({Verb::abandon}, [&] {
    change();
    then = all_rows(t);
  }));
  const auto report = store->reap({false, 24h});
  REQUIRE(report);
  CHECK_FALSE(then.empty());
  CHECK(report->abandoned.empty());
  CHECK(all_rows(t) == then);
}

STORE_CASE("a nested run that ends before its outer run's release has learned of it holds nothing up",
           "[safety]") {
  Fixture t;
  const auto request = GENERATE(from_range(outer_requests()));
  const bool on_last_key = GENERATE(false, true);
  const int look = GENERATE(1, 2);
  CAPTURE(to_string(request.sharing.mode), request.further_keys.size(), on_last_key, look);
  const Lease outer = t.grant(request);
  const Lease nested = begin_nested(t, nested_in(outer, on_last_key));
  bool ended = false;
  const auto store = open_stepped(*t.under_test, at_look(look, [&] {
    ended = released(t.release(ref_to(nested)));
    CHECK(ended);
  }));
  const auto given = release_as_a_run(*store, outer);
  CHECK(given.result == (ended ? ReleaseResult::released : ReleaseResult::nested));
  CHECK((look > 1 || ended));
  if (!ended) {
    CHECK(released(t.release(ref_to(nested))));
    CHECK(release_as_a_run(*store, outer).result == ReleaseResult::released);
  }
  CHECK(owners(t).empty());
}

STORE_CASE("of two nested runs the one that goes on keeps the lease when the other ends during a release",
           "[safety]") {
  Fixture t;
  const auto request = GENERATE(from_range(outer_requests()));
  const bool on_last_key = GENERATE(false, true);
  CAPTURE(to_string(request.sharing.mode), request.further_keys.size(), on_last_key);
  const Lease outer = t.grant(request);
  const Lease first = begin_nested(t, nested_in(outer, false));
  const Lease second = begin_nested(t, nested_in(outer, on_last_key));
  const auto store =
      open_stepped(*t.under_test, at_look(1, [&] { CHECK(released(t.release(ref_to(first)))); }));
  const auto given = release_as_a_run(*store, outer);
  CHECK(given.result == ReleaseResult::nested);
  REQUIRE((given.refused && given.refused->status));
  CHECK(given.refused->status->owner == outer.owner.text);
  CHECK(given.refused->status->count == 2);
  for (const Key& held : request.further_keys) CHECK(t.row(held.bytes()).owner == outer.owner.text);
  CHECK(released(t.release(ref_to(second))));
  CHECK(release_as_a_run(*store, outer).result == ReleaseResult::released);
  CHECK(owners(t).empty());
}

STORE_CASE("nested runs that come and go at each try of a release end it with an error, not its lease",
           "[safety]") {
  Fixture t;
  const auto request = GENERATE(from_range(outer_requests()));
  const bool on_last_key = GENERATE(false, true);
  CAPTURE(to_string(request.sharing.mode), request.further_keys.size(), on_last_key);
  const Lease outer = t.grant(request);
  const auto inner = nested_in(outer, on_last_key);
  std::optional<Lease> nested;
  int tries = 0;
  const auto store = open_stepped(*t.under_test, [&](Verb verb) -> std::optional<store::Effect> {
    if (is_release(verb) && ++tries < 100) nested = begin_nested(t, inner);
    if (is_look(verb) && nested) CHECK(released(t.release(ref_to(*std::exchange(nested, std::nullopt)))));
    return std::nullopt;
  });
  const auto refused = store->release(ref_to(outer), Actor::holder, k_ended_well);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unreachable);
  CHECK(refused.error().message.ends_with(": the server's answers contradict each other; try again"));
  CHECK(tries < 10);
  CHECK(t.row("a").owner == outer.owner.text);
  CHECK(released(t.release(ref_to(outer))));
  CHECK(owners(t).empty());
}

STORE_CASE(
    "a key that is lost while a release is refused for a nested run is not ours, and the others are free",
    "[safety]") {
  Fixture t;
  auto request = asks_for_all({"a", "b"}, "outer");
  request.sharing.mode = GENERATE(Mode::exclusive, Mode::shared);
  const auto lost = GENERATE(as<std::string>{}, "a", "b");
  const bool on_last_key = GENERATE(false, true);
  const int look = GENERATE(1, 2);
  CAPTURE(to_string(request.sharing.mode), lost, on_last_key, look);
  const Lease outer = t.grant(request);
  const Lease nested = begin_nested(t, nested_in(outer, on_last_key));
  std::optional<Lease> other;
  const auto store = open_stepped(*t.under_test, at_look(look, [&] {
    CHECK(released(t.release(ref_to(nested))));
    t.under_test->age(lost, 2min, false);
    other = t.grant(asks(lost, "other"));
  }));
  const auto given = release_as_a_run(*store, outer);
  if (look == 1) REQUIRE(other);
  CHECK(given.result == (other ? ReleaseResult::not_ours : ReleaseResult::nested));
  if (!other) return;
  CHECK(owners(t) == Owners{"other"});
  CHECK(renewed(t.renew(ref_to(*other))));
}

STORE_CASE("a holder whose own row was reaped has lost its lease, and its release ends no other holder's",
           "[safety]") {
  Fixture t;
  auto request = GENERATE(reads("k", "gone"), takes_slot("k", "gone", 3));
  auto other = request;
  other.owner.text = "before";
  const Lease before = t.grant(other);
  const Lease gone = t.grant(request);
  other.owner.text = "after";
  const Lease after = t.grant(other);
  const bool known_rows = GENERATE(true, false);
  const bool known_token = GENERATE(true, false);
  const bool place_is_taken = GENERATE(true, false);
  CAPTURE(to_string(request.sharing.mode), known_rows, known_token, place_is_taken);
  t.under_test->age_hold("k", 2, 2min);
  CHECK(t.reap(false).abandoned.size() == 1);
  other.owner.text = "next";
  if (place_is_taken) t.grant(other);
  auto ref = ref_to(gone);
  if (!known_rows) ref.rows.clear();
  if (!known_token) ref.token.reset();
  const auto others = all_rows(t);
  for (const auto actor : {Actor::holder, Actor::stopper}) {
    const auto outcome = t.release(ref, actor, k_ended_well);
    REQUIRE(std::holds_alternative<NotOurs>(outcome));
    CHECK(judge_release(std::get<NotOurs>(outcome), ref, k_ended_well, std::nullopt) ==
          ReleaseResult::not_ours);
  }
  CHECK(all_rows(t) == others);
  CHECK(renewed(t.renew(ref_to(before))));
  CHECK(released(t.release(ref_to(after))));
}

STORE_CASE("a lock that changes hands at every try is given up, and the try leaves nothing") {
  Fixture t;
  std::optional<Lease> other = t.grant(asks("k", "other"));
  int tries = 0;
  const auto store = open_stepped(*t.under_test, [&](Verb verb) -> std::optional<store::Effect> {
    if (verb == Verb::grant && ++tries < 100 && !other) other = t.grant(asks("k", "other"));
    if (is_look(verb) && other) CHECK(released(t.release(ref_to(*std::exchange(other, std::nullopt)))));
    return std::nullopt;
  });
  const auto refused = store->try_acquire(asks("k", "me"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unreachable);
  CHECK(refused.error().message.ends_with(": it changed hands at every try; try again"));
  CHECK(tries < 30);
  CHECK(owners(t).empty());
  t.grant(asks("k", "next"));
}

STORE_CASE(
    "a row that somebody deletes between the two transactions of a grant is named, and nothing granted") {
  Fixture t;
  // As when the row is deleted as soon as it is there.
  const auto store = open_stepped(*t.under_test, [](Verb verb) {
    return verb == Verb::add_row ? std::optional(store::Effect{{}, 1}) : std::nullopt;
  });
  const auto refused = store->try_acquire(reads("k", "me"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unreachable);
  CHECK(refused.error().message.ends_with(": its row vanished; is another tool deleting rows?"));
  t.grant(asks("k", "next"));
}

// Its sender may have given up long ago.
STORE_CASE("a statement of a resume that comes late ends no later pause", "[all-of-dblock]") {
  const auto late = GENERATE(Verb::end_pause, Verb::some_locks);
  Fixture t;
  const PauseScope scope{"k", false};
  t.grant(asks("k", "owner"));
  REQUIRE(t.store->pause({scope, Micros{1h}, "op@desk", ""}));
  const auto store = open_stepped(*t.under_test, once_before({late}, [&] {
    REQUIRE(t.store->resume(scope));
    REQUIRE(t.store->pause({scope, Micros{2h}, "later@desk", ""}));
  }));
  const auto resumed = store->resume(scope);
  REQUIRE(resumed);
  REQUIRE(resumed->left.size() == 1);
  CHECK(resumed->left.front().by == "later@desk");
  t.under_test->age("k", 1h, false);
  const auto refused = t.conflict(asks("k", "next"));
  REQUIRE(refused.status.pause);
  CHECK(refused.status.pause->by == "later@desk");
}

STORE_CASE("a place that somebody deletes as it is taken is named", "[all-of-dblock]") {
  Fixture t;
  t.grant(asks("k", "owner"));
  const auto store = open_stepped(*t.under_test, [](Verb verb) -> std::optional<store::Effect> {
    return verb == Verb::add_place ? std::optional(store::Effect{}) : std::nullopt;
  });
  const auto stands = store->stand_in_line(asks("k", "waiter"), Micros{10s}, true);
  REQUIRE_FALSE(stands);
  CHECK(stands.error().code == Errc::unreachable);
  CHECK(stands.error().message.ends_with(": its place in the line vanished; try again"));
}

STORE_CASE("a pause that another process makes and ends at every try is given up", "[all-of-dblock]") {
  Fixture t;
  const PauseScope scope{"k", false};
  int tries = 0;
  const auto store = open_stepped(*t.under_test, [&](Verb verb) -> std::optional<store::Effect> {
    if (verb == Verb::add_pause && ++tries < 100)
      REQUIRE(t.store->pause({scope, Micros{1h}, "other@desk", ""}));
    if (verb == Verb::change_pause && ++tries < 100) REQUIRE(t.store->resume(scope));
    return std::nullopt;
  });
  const auto refused = store->pause({scope, Micros{1h}, "op@desk", ""});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unreachable);
  CHECK(refused.error().message.ends_with(": another process pauses and resumes the same; try again"));
  CHECK(tries < 10);
}

namespace {

const PauseScope k_paused{"k", false};

// Pauses for a second, which passes before that statement: as when the one before had to wait for another
// transaction. With `paused` somebody else has paused the same lock for longer. RETURNS: the refusal's words.
std::string refusal_of_late_pause(Fixture& t, bool paused, Verb before) {
  if (paused) REQUIRE(t.store->pause({k_paused, Micros{1h}, "other@desk", ""}));
  const ServerTime end{t.store->list({}).value().server_time.since_epoch + Micros{1s * test::slowness()}};
  const auto store = open_stepped(*t.under_test, once_before({before}, [&] {
    while (t.store->list({}).value().server_time <= end) std::this_thread::sleep_for(50ms);
  }));
  const auto late = store->pause({k_paused, end, "op@desk", ""});
  REQUIRE_FALSE(late);
  CHECK(late.error().code == Errc::usage);
  return late.error().message;
}

}  // namespace

STORE_CASE("a pause that is over before it could be recorded changes nothing, and says so",
           "[all-of-dblock]") {
  Fixture t;
  const bool paused = GENERATE(false, true);
  CHECK_THAT(refusal_of_late_pause(t, paused, Verb::forget_pauses),
             Catch::StartsWith("cannot pause lock \"k\" until ") &&
                 Catch::EndsWith(": that time had come before the database had recorded the "
                                 "pause, so nothing was changed; pause for longer"));
  const auto pauses = t.store->list({.with_pauses = true}).value().pauses;
  REQUIRE(pauses.size() == (paused ? 1 : 0));
  if (paused) CHECK(pauses.front().by == "other@desk");
}

STORE_CASE("a pause that is over before every lock was told of it is no success", "[all-of-dblock]") {
  Fixture t;
  const bool paused = GENERATE(false, true);
  const std::string said = refusal_of_late_pause(t, paused, Verb::some_locks);
  CHECK_THAT(said, Catch::Contains(
                       ": that time had come before every lock had been told, so the pause may have held up "
                       "nothing; pause for longer"));
  CHECK((said.find("; it has replaced the pause until ") != std::string::npos) == paused);
}

}  // namespace dblock::contract
