// The history of runs: what every store records of them, when it is told to, and forgets again.
#include <algorithm>

#include "contract/store_fixture.hpp"

namespace dblock::contract {
namespace {

constexpr RunEnd k_failed{RunOutcome::failed, 3};
constexpr RunEnd k_succeeded{RunOutcome::succeeded, 0};

struct Recorded : Fixture {
  explicit Recorded(bool on = true) {
    if (on) under_test->keep_history(true);
  }

  History history(const HistoryQuery& query = {}) {
    auto read = store->history(query);
    if (!read) FAIL(read.error().message);
    CHECK(read->server_time.since_epoch > Micros{0});
    return std::move(*read);
  }
  std::vector<RecordedRun> runs(const HistoryQuery& query = {}) { return history(query).runs; }

  void end(const Lease& lease, RunEnd how = k_succeeded) {
    REQUIRE(released(release(ref_to(lease), Actor::holder, how)));
    store->end();
  }
  Lease run(std::string_view name, RunEnd how = k_succeeded) {
    const Lease lease = grant(asks(name, "owner-" + std::to_string(++owners_)));
    end(lease, how);
    return lease;
  }

 private:
  int owners_ = 0;
};

Micros between(const std::optional<ServerTime>& from, const std::optional<ServerTime>& to) {
  REQUIRE(from);
  REQUIRE(to);
  return to->since_epoch - from->since_epoch;
}

}  // namespace

STORE_CASE("no run is recorded until a history is asked for") {
  Recorded t(false);
  t.run("k");
  CHECK_FALSE(t.history().kept);
  CHECK(t.runs().empty());
  t.under_test->keep_history(true);
  CHECK(t.history().kept);
  CHECK(t.runs().empty());
}

STORE_CASE("a run that ended is in the history with its holder, its times and how it ended",
           "[all-of-dblock]") {
  Recorded t;
  const Lease lease = t.grant(asks("k", "owner-1"));
  const auto began = t.row("k").acquired_at;
  CHECK(t.runs().empty());
  t.end(lease, k_failed);
  const auto runs = t.runs();
  REQUIRE(runs.size() == 1);
  const auto& run = runs.front();
  CHECK(run.key == "k");
  CHECK(run.owner == "owner-1");
  CHECK(run.token == lease.token);
  CHECK(run.kind == Kind::run);
  CHECK(run.mode == Mode::exclusive);
  CHECK(run.holder.host == "host");
  CHECK(run.holder.pid == 4711);
  CHECK(run.holder.user == "user");
  CHECK(run.holder.command == "job");
  CHECK(run.holder.note == "note");
  CHECK(run.outcome == RunOutcome::failed);
  CHECK(run.exit_code == 3);
  CHECK(std::chrono::abs(between(began, run.acquired_at)) <= t.under_test->clock_jitter());
  const auto last = t.row("k").last;
  REQUIRE(last);
  CHECK(last->released_at == run.released_at);
  CHECK(between(run.released_at, run.recorded_at) == 0s);
}

STORE_CASE("the attempts of a run are recorded with it, and with no run after it", "[all-of-dblock]") {
  const bool reaps = GENERATE(true, false);
  Recorded t;
  t.run("k", {RunOutcome::succeeded, 0, {}, 3});
  t.grant(asks("k", "lost", Kind::run, 60s, 1s));
  t.under_test->age("k", 120s, false);
  if (reaps) t.reap(false);
  t.run("k", k_failed);
  for (const auto& run : t.runs()) {
    CAPTURE(run.owner);
    CHECK(run.attempts == (run.outcome == RunOutcome::succeeded ? std::optional(3U) : std::nullopt));
  }
}

STORE_CASE("a run is recorded although the next holder came first", "[all-of-dblock]") {
  Recorded t;
  auto request = asks("k", "owner-1");
  request.holder.host = "first";
  const Lease lease = t.grant(request);
  const auto began = t.row("k").acquired_at;
  REQUIRE(released(t.release(ref_to(lease), Actor::holder, k_failed)));
  const auto other = t.under_test->open();
  REQUIRE(other->try_acquire(asks("k", "owner-2")));
  t.store->end();
  const auto runs = t.runs();
  REQUIRE(runs.size() == 1);
  CHECK(runs.front().owner == "owner-1");
  CHECK(runs.front().token == lease.token);
  CHECK(runs.front().holder.host == "first");
  CHECK(runs.front().outcome == RunOutcome::failed);
  CHECK(runs.front().exit_code == 3);
  CHECK(std::chrono::abs(between(began, runs.front().acquired_at)) < test::patience());
  CHECK(between(runs.front().acquired_at, runs.front().released_at) >= 0s);
}

// Else its bar on the page would overlap theirs, as if the lock were broken.
STORE_CASE("a run that is recorded up to two handoffs late ends before the next one begins",
           "[all-of-dblock]") {
  const int handoffs = GENERATE(1, 2);
  Recorded t;
  const Lease lease = t.grant(asks("k", "owner-0"));
  REQUIRE(released(t.release(ref_to(lease), Actor::holder, k_failed)));
  const auto ended = t.row("k").last->released_at;
  const auto other = t.under_test->open();
  std::optional<ServerTime> next;
  for (int i = 1; i <= handoffs; ++i) {
    const auto granted = contract::grant(*other, asks("k", "owner-" + std::to_string(i)));
    if (i == 1) next = t.row("k").acquired_at;
    if (i < handoffs) REQUIRE(released(*other->release(ref_to(granted), Actor::holder, {})));
  }
  t.store->end();
  const auto runs = t.runs();
  const auto late = std::ranges::find(runs, "owner-0", &RecordedRun::owner);
  REQUIRE(late != runs.end());
  CHECK(between(late->released_at, next) >= 0s);
  if (handoffs == 1) CHECK(late->released_at == ended);
}

STORE_CASE("what did not end, or was not ours to end, is not recorded") {
  Recorded t;
  const Lease lease = t.grant(asks("k", "owner-1"));
  t.conflict(asks("k", "owner-2"));
  CHECK(why(t.release({lease.key, {"owner-2"}, std::nullopt}, Actor::holder, k_succeeded)) ==
        NotOursWhy::other_holder);
  CHECK(renewed(t.renew(ref_to(lease))));
  t.store->end();
  CHECK(t.runs().empty());
  t.end(lease);
  CHECK(why(t.release(ref_to(lease), Actor::holder, k_succeeded)) == NotOursWhy::free);
  t.store->end();
  CHECK(t.runs().size() == 1);
}

STORE_CASE("a session that did not take the lease records its end too") {
  Recorded t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::acquire));
  const LockStatus held = t.row("k");
  const auto other = t.under_test->open();
  const auto outcome = other->release({lease.key, lease.owner, std::nullopt}, Actor::script, {});
  REQUIRE(outcome);
  REQUIRE(released(*outcome));
  other->end();
  const auto runs = t.runs();
  REQUIRE(runs.size() == 1);
  CHECK(runs.front().kind == held.kind);
  CHECK(runs.front().outcome == RunOutcome::released);
  CHECK_FALSE(runs.front().exit_code);
  CHECK(runs.front().token == lease.token);
  CHECK(runs.front().holder.host == held.holder.host);
}

STORE_CASE("holders beside others have a record each", "[all-of-dblock]") {
  Recorded t;
  auto one = asks("slots", "owner-1");
  one.sharing = {Mode::slot, 2};
  auto two = asks("slots", "owner-2");
  two.sharing = one.sharing;
  auto reader = asks("read", "owner-3");
  reader.sharing.mode = Mode::shared;
  const Lease first = t.grant(one);
  const Lease second = t.grant(two);
  const Lease third = t.grant(reader);
  t.end(second, k_failed);
  t.end(first);
  t.end(third);
  const auto slots = t.runs({{key("slots")}, {}});
  REQUIRE(slots.size() == 2);
  CHECK(slots[0].owner == "owner-1");
  CHECK(slots[0].mode == Mode::slot);
  CHECK(slots[0].outcome == RunOutcome::succeeded);
  CHECK(slots[1].owner == "owner-2");
  CHECK(slots[1].token == second.token);
  CHECK(slots[1].exit_code == 3);
  CHECK(slots[1].holder.host == "host");
  const auto readers = t.runs({{key("read")}, {}});
  REQUIRE(readers.size() == 1);
  CHECK(readers.front().mode == Mode::shared);
}

STORE_CASE("a run under several keys is recorded under each", "[all-of-dblock]") {
  Recorded t;
  auto request = asks("a", "owner-1");
  request.further_keys = {key("b")};
  t.end(t.grant(request), k_failed);
  const auto runs = t.runs();
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].key != runs[1].key);
  for (const auto& run : runs) CHECK(run.exit_code == 3);
}

STORE_CASE("a lease that reap frees is recorded as abandoned, and as never released") {
  Recorded t;
  t.grant(asks("k", "owner-1", Kind::run, 60s, 1s));
  t.under_test->age("k", 120s, false);
  t.reap(true);
  CHECK(t.runs().empty());
  REQUIRE(t.reap(false).abandoned.size() == 1);
  const auto runs = t.runs();
  REQUIRE(runs.size() == 1);
  CHECK(runs.front().outcome == RunOutcome::abandoned);
  CHECK(runs.front().owner == "owner-1");
  CHECK_FALSE(runs.front().released_at);
  CHECK(between(runs.front().acquired_at, runs.front().recorded_at) > 100s);
}

STORE_CASE("a lease that is broken by force is recorded as abandoned") {
  Recorded t;
  const Lease lease = t.grant(asks("k", "owner-1", Kind::acquire));
  t.under_test->age("k", 50s, false);  // more than two heartbeats, where the holder promises any
  const LockStatus held = t.row("k");
  REQUIRE(std::holds_alternative<Revoked>(t.free_now("k", lease.token)));
  t.store->end();
  const auto runs = t.runs();
  REQUIRE(runs.size() == 1);
  CHECK(runs.front().outcome == RunOutcome::abandoned);
  CHECK(runs.front().token == lease.token);
  CHECK(runs.front().holder.host == held.holder.host);
  CHECK(runs.front().released_at);
}

STORE_CASE("the history is told the last end first, by key, by age and up to a limit") {
  Recorded t;
  t.run("a");
  t.under_test->age_history(2h);
  t.run("b");
  t.run("a", k_failed);
  const auto all = t.history();
  REQUIRE(all.runs.size() == 3);
  CHECK(all.runs[0].exit_code == 3);
  CHECK(all.runs[1].key == "b");
  CHECK(all.runs[2].exit_code == 0);
  CHECK_FALSE(all.cut);
  CHECK(t.runs({{key("a")}, {}}).size() == 2);
  CHECK(t.runs({{key("b")}, {}}).size() == 1);
  CHECK(t.runs({{key("a"), key("b")}, {}}).size() == 3);
  CHECK(t.runs({{key("none")}, {}}).empty());
  CHECK(t.runs({{}, 1h}).size() == 2);
  CHECK(t.runs({{key("a")}, 1h}).size() == 1);
  CHECK(t.runs({{}, 3h}).size() == 3);
  const auto two = t.history({{}, {}, 2});
  CHECK(two.cut);
  REQUIRE(two.runs.size() == 2);
  CHECK(two.runs[1].key == "b");
  const auto of_both = t.history({{key("a"), key("b")}, {}, 2});
  CHECK(of_both.cut);
  REQUIRE(of_both.runs.size() == 2);
  CHECK(of_both.runs[0].exit_code == 3);
  CHECK(of_both.runs[1].key == "b");
  CHECK_FALSE(t.history({{}, {}, 3}).cut);
  t.under_test->copy_history(3);
  for (const auto& query : {HistoryQuery{{}, {}, 1}, HistoryQuery{{key("a")}, {}, 1}}) {
    const auto last = t.history(query);
    CHECK(last.cut);
    REQUIRE(last.runs.size() == 1);
    CHECK(last.runs[0].recorded_at == all.runs[0].recorded_at);
  }
}

STORE_CASE("the history is told by prefix and outcome, together with everything else") {
  Recorded t;
  t.run("etl-a");
  t.run("etl-b", k_failed);
  t.run("etl", k_failed);
  t.run("deploy", {RunOutcome::timed_out, 124});
  CHECK(t.runs({.keys = {}, .since = {}, .prefix = "etl-"}).size() == 2);
  CHECK(t.runs({.keys = {}, .since = {}, .prefix = "none"}).empty());
  CHECK(t.runs({.keys = {}, .since = {}, .outcome = RunOutcome::failed}).size() == 2);
  CHECK(t.runs({.keys = {}, .since = {}, .outcome = RunOutcome::lost}).empty());
  const auto both = t.runs({.keys = {}, .since = 1h, .prefix = "etl-", .outcome = RunOutcome::failed});
  REQUIRE(both.size() == 1);
  CHECK(both.front().key == "etl-b");
  CHECK(t.runs({.keys = {key("etl-a"), key("deploy")}, .since = {}, .prefix = "etl-"}).size() == 1);
  const auto cut = t.history({.keys = {}, .since = {}, .limit = 1, .outcome = RunOutcome::failed});
  CHECK(cut.cut);
  CHECK(cut.runs.front().key == "etl");
}

STORE_CASE("reap forgets runs that ended long ago, thousands of them, and no others") {
  Recorded t;
  t.run("k");
  t.under_test->copy_history(1000);
  t.under_test->age_history(2h);
  t.run("k", k_failed);
  CHECK(t.store->reap({false, 24h})->forgotten_runs == 0);
  CHECK(t.store->reap({false, 24h, 3h})->forgotten_runs == 0);
  CHECK(t.store->reap({true, 24h, 1h})->forgotten_runs == 1001);
  CHECK(t.runs({{}, {}, 2000}).size() == 1002);
  CHECK(t.store->reap({false, 24h, 1h})->forgotten_runs == 1001);
  REQUIRE(t.runs().size() == 1);
  CHECK(t.runs().front().exit_code == 3);
  CHECK(t.store->reap({false, 24h, 1h})->forgotten_runs == 0);
}

STORE_CASE("a history that is ended stays as it was, and goes on when it is begun again") {
  Recorded t;
  t.run("k");
  t.under_test->keep_history(false);
  t.run("k");
  CHECK_FALSE(t.history().kept);
  CHECK(t.runs().size() == 1);
  t.under_test->keep_history(true);
  t.under_test->keep_history(true);
  t.run("k");
  CHECK(t.history().kept);
  CHECK(t.runs().size() == 2);
}

STORE_CASE("a store that never kept a history has none to forget", "[all-of-dblock]") {
  Fixture t;
  CHECK(t.store->reap({false, 24h, 0s})->forgotten_runs == 0);
  CHECK(t.store->reap({true, 24h, 0s})->forgotten_runs == 0);
}

}  // namespace dblock::contract
