// What a keeper makes of a lease that a renewal found gone, and how long dblock waits for its keeper. And the
// rounds of a command that repeats its work, `reap --every`.

#include "app/keeper.hpp"
#include "app/rounds.hpp"
#include "lease_fakes.hpp"
#include "support/catch.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;
using lease::NotOursWhy;
using lease::RunOutcome;

const lease::Timing k_timing = *lease::make_timing({60s, {}, {}, {}});  // a heartbeat every ten seconds

lease::NotOurs gone(NotOursWhy why, std::optional<RunOutcome> last) {
  lease::LockStatus status;
  if (last) {
    status.last.emplace();
    status.last->outcome = last;
  }
  return {why, std::move(status)};
}

bool on_purpose(NotOursWhy why, std::optional<RunOutcome> last, Nanos silence) {
  return released_on_purpose(gone(why, last), silence, k_timing);
}

}  // namespace

TEST_CASE("a released lease is no loss, whoever holds the lock by now", "[safety]") {
  for (const auto why : {NotOursWhy::free, NotOursWhy::other_holder}) {
    CHECK(on_purpose(why, RunOutcome::released, 10s));
    CHECK(on_purpose(why, RunOutcome::released, 40s));
    // The next holder has come and gone; nobody can have freed the lock by force so soon.
    CHECK(on_purpose(why, RunOutcome::succeeded, 10s));
    CHECK(on_purpose(why, std::nullopt, 10s));
  }
}

TEST_CASE("a lease that was revoked, freed by force, taken over or deleted is a loss", "[safety]") {
  CHECK_FALSE(on_purpose(NotOursWhy::revoked, RunOutcome::released, 1s));
  CHECK_FALSE(on_purpose(NotOursWhy::expired, RunOutcome::released, 1s));
  CHECK_FALSE(on_purpose(NotOursWhy::absent, std::nullopt, 1s));
  for (const auto why : {NotOursWhy::free, NotOursWhy::other_holder}) {
    CHECK_FALSE(on_purpose(why, RunOutcome::abandoned, 1s));
    CHECK_FALSE(on_purpose(why, RunOutcome::abandoned, 40s));
    // After two missing heartbeats it could have been freed by force, and the row no longer tells.
    CHECK_FALSE(on_purpose(why, RunOutcome::succeeded, 20s));
    CHECK_FALSE(on_purpose(why, std::nullopt, 20s));
  }
  CHECK_FALSE(released_on_purpose({NotOursWhy::free, {}}, 20s, k_timing));
}

TEST_CASE("dblock awaits its keeper for one call that hangs and one that works, while the lease is good",
          "[safety]") {
  const BootTime sent{1h};
  // A network call may take ten seconds under this TTL, and the lease lasts much longer.
  const auto long_lease = *lease::make_timing({10min, {}, {}, {}});
  CHECK(hand_over_until(long_lease, sent, sent + 5s) == sent + 25s);
  const auto short_lease = *lease::make_timing({6s, {}, {}, {}});  // and three seconds under this one
  CHECK(hand_over_until(short_lease, sent, sent) == short_lease.signal_at(sent));
  CHECK(short_lease.signal_at(sent) < sent + 6s);
}

namespace {

// When the rounds began, in milliseconds, until `end`. `delays[n]`: how long round n took, or, with
// `while_waiting`, how much later than it should the wait after round n ended.
std::vector<long long> rounds_of_100ms(const std::vector<Nanos>& delays, bool while_waiting, Nanos end) {
  test::FakeClock clock;
  const BootTime begun = clock.now();
  std::vector<long long> rounds;
  const auto delay = [&] { return rounds.size() <= delays.size() ? delays[rounds.size() - 1] : Nanos{0}; };
  const auto ended = in_rounds(
      100ms, clock,
      [&]() -> Result<void> {
        rounds.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(clock.now() - begun).count());
        if (!while_waiting) clock.tick(delay());
        return {};
      },
      [&](BootTime next) {
        const WakeEvent never;
        clock.wait_until(next, never);
        if (while_waiting) clock.tick(delay());
        return clock.now() >= begun + end;
      });
  CHECK(ended);
  return rounds;
}

}  // namespace

TEST_CASE("rounds that were missed are not made up for", "[safety]") {
  using Times = std::vector<long long>;
  CHECK(rounds_of_100ms({}, false, 400ms) == Times{0, 100, 200, 300});
  CHECK(rounds_of_100ms({30ms, 30ms, 30ms}, false, 400ms) == Times{0, 100, 200, 300});
  // A round took longer than nine others, or the process was frozen in it: the next one comes at once, and
  // then at the interval.
  CHECK(rounds_of_100ms({0ms, 950ms}, false, 1400ms) == Times{0, 100, 1050, 1150, 1250, 1350});
  // The process was frozen between two rounds.
  CHECK(rounds_of_100ms({0ms, 950ms}, true, 1400ms) == Times{0, 100, 1150, 1250, 1350});
}

TEST_CASE("a round that fails is the last one", "[safety]") {
  test::FakeClock clock;
  int rounds = 0;
  const auto ended = in_rounds(
      100ms, clock,
      [&]() -> Result<void> {
        if (++rounds < 3) return {};
        return fail(Errc::denied, "no more");
      },
      [](BootTime) { return false; });
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == Errc::denied);
  CHECK(rounds == 3);
}

}  // namespace dblock::app
