// The judge itself: a history that a lock may have passes, and for each rule one that breaks just this rule.
#include "campaign/history.hpp"
#include "support/catch.hpp"

#include <fstream>
#include <sstream>

namespace dblock::campaign {
namespace {

constexpr Nanos k_ms = 1'000'000;
constexpr Nanos k_ttl = 3 * k_second;

// Times are given in milliseconds.
class Story {
 public:
  Story& invoke(int op, Nanos t, const std::string& what = "run", int group = 0) {
    return add({.kind = "invoke", .t = t * k_ms, .ttl = k_ttl, .op = op, .group = group, .what = what});
  }
  Story& begin(int op, Nanos t, long long token, const std::string& mode = "exclusive",
               const std::string& key = "k", int slots = 1) {
    return add(
        {.kind = "begin", .t = t * k_ms, .op = op, .slots = slots, .token = token, .key = key, .mode = mode});
  }
  Story& alive(int op, Nanos t) { return add({.kind = "alive", .t = t * k_ms, .op = op}); }
  Story& end(int op, Nanos t) { return add({.kind = "end", .t = t * k_ms, .op = op}); }
  Story& ret(int op, Nanos t, int code = 0, bool alive = false) {
    return add({.kind = "return", .t = t * k_ms, .op = op, .code = code, .alive = alive});
  }
  Story& use(int op, const std::string& verb, Nanos from, Nanos t, long long token, int code = 0) {
    return add({.kind = "use",
                .t = t * k_ms,
                .from = from * k_ms,
                .ttl = k_ttl,
                .op = op,
                .code = code,
                .token = token,
                .key = "k",
                .verb = verb});
  }
  Story& write(int op, Nanos t, long long token, bool accepted = true) {
    return add({.kind = "write", .t = t * k_ms, .op = op, .token = token, .accepted = accepted, .key = "k"});
  }
  // A committed transaction that asserted its token at `from` and sent COMMIT at `t`.
  Story& stored(int op, Nanos from, Nanos t, long long token, long long seen) {
    return add({.kind = "stored",
                .t = t * k_ms,
                .from = from * k_ms,
                .op = op,
                .token = token,
                .seen = seen,
                .key = "k"});
  }
  // A lease's margin is one second, and the clock was moved by up to 400 ms.
  Story& terms() { return add({.kind = "terms", .ttl = k_ttl, .margin = k_second, .step = 400 * k_ms}); }
  Story& line(int op, Nanos from, Nanos t) {
    return add({.kind = "line", .t = t * k_ms, .from = from * k_ms, .op = op, .key = "k"});
  }
  Story& dark(Nanos from, Nanos until, int op = 0, int group = -1) {
    return add({.kind = "dark", .t = from * k_ms, .until = until * k_ms, .op = op, .group = group});
  }
  Story& add(const Event& event) {
    events_.push_back(event);
    return *this;
  }
  // A run of a job that was at work from `from` to `until`.
  Story& run(int op, Nanos from, Nanos until, long long token, const std::string& mode = "exclusive",
             int slots = 1) {
    return invoke(op, from - 5).begin(op, from, token, mode, "k", slots).end(op, until).ret(op, until + 5);
  }
  // An `acquire` whose lease is at work at `t`.
  Story& acquire(int op, Nanos t, long long token) {
    return invoke(op, t - 5, "acquire").ret(op, t - 1).begin(op, t, token);
  }
  [[nodiscard]] const std::vector<Event>& events() const { return events_; }

 private:
  std::vector<Event> events_;
};

// The rules that were broken, one word for each violation.
std::string broken(const Story& story, const Judgement& how = {}) {
  std::string rules;
  for (const auto& violation : judge(story.events(), how))
    rules += (rules.empty() ? "" : " ") + std::string(to_string(violation.rule));
  return rules;
}

}  // namespace

TEST_CASE("a history that a lock may have is not blamed") {
  Story story;
  story.run(1, 100, 200, 11).run(2, 210, 300, 12);
  story.acquire(3, 310, 13).alive(3, 350).use(3, "renew", 360, 365, 13).use(3, "release", 370, 375, 13);
  // One that was killed, and had waited from before the first: only its beginning and its token count.
  story.invoke(4, 1).begin(4, 400, 14).alive(4, 500).ret(4, 505, -9);
  story.run(5, 506, 600, 15).write(5, 510, 15).write(4, 520, 14, false);
  story.use(3, "renew", 700, 705, 13, 76).use(3, "release", 710, 715, 13, 76);
  story.invoke(6, 700).ret(6, 710, 75);
  story.dark(550, 9000, 4).dark(590, 3000);
  story.add({.kind = "final", .token = 15, .key = "k"});
  CHECK(broken(story) == "");
}

TEST_CASE("two exclusive holds at once are an overlap") {
  CHECK(broken(Story().run(1, 100, 200, 11).run(2, 150, 300, 12)) == "overlap");
  CHECK(broken(Story().run(1, 100, 200, 11).run(2, 200, 300, 12)) == "");
  // Not only of neighbours.
  CHECK(broken(Story().run(1, 100, 900, 11).run(2, 150, 160, 12).run(3, 300, 310, 13)) == "overlap overlap");
  CHECK(broken(Story().run(1, 100, 200, 11).run(2, 150, 300, 12), {.clock_beyond_margin = true}) == "");
}

TEST_CASE("the last sign of life ends the hold of a job that was killed") {
  const auto killed = [](Nanos alive_at) {
    return Story().invoke(1, 95).begin(1, 100, 11).alive(1, alive_at).ret(1, 400, -9).run(2, 200, 300, 12);
  };
  CHECK(broken(killed(199)) == "");
  CHECK(broken(killed(220)) == "overlap");
}

TEST_CASE("a file lock that is still held is an overlap whatever the times say") {
  Story story;
  story.run(1, 100, 200, 11).run(2, 210, 300, 12);
  story.add({.kind = "beside", .t = 205 * k_ms, .op = 2, .key = "k"});
  CHECK(broken(story) == "overlap");
}

TEST_CASE("readers share, and exclude a writer") {
  CHECK(broken(Story().run(1, 100, 300, 11, "shared").run(2, 150, 250, 12, "shared")) == "");
  CHECK(broken(Story().run(1, 100, 300, 11, "shared").run(2, 150, 250, 12)) == "overlap");
  CHECK(broken(Story().run(1, 100, 300, 11).run(2, 150, 250, 12, "shared")) == "overlap");
}

TEST_CASE("no more holders than slots") {
  const Story two = Story().run(1, 100, 300, 11, "slots", 2).run(2, 150, 250, 12, "slots", 2);
  CHECK(broken(two) == "");
  CHECK(broken(Story(two).run(3, 260, 350, 13, "slots", 2)) == "");
  CHECK(broken(Story(two).run(3, 240, 350, 13, "slots", 2)) == "overlap");
  const auto numbered = [](int slot) {
    const Event begin{.kind = "begin", .t = 100 * k_ms, .op = 1, .slots = 2, .slot = slot, .token = 11};
    return broken(Story().invoke(1, 95).add(begin).end(1, 200).ret(1, 205));
  };
  CHECK(numbered(2) == "");
  CHECK(numbered(3) == "overlap");
}

TEST_CASE("tokens rise") {
  CHECK(broken(Story().run(1, 100, 200, 11).run(2, 210, 300, 11)) == "tokens");
  CHECK(broken(Story().run(1, 100, 200, 12).run(2, 210, 300, 11)) == "tokens tokens");
  // Asked for before the other's grant, but granted after it.
  CHECK(broken(Story().invoke(2, 1).begin(2, 210, 11).end(2, 220).ret(2, 221).run(1, 100, 200, 12)) ==
        "tokens");
  // Of two readers the earlier one may begin later, …
  CHECK(broken(Story()
                   .invoke(2, 50)
                   .begin(2, 110, 11, "shared")
                   .end(2, 220)
                   .ret(2, 221)
                   .run(1, 100, 200, 12, "shared")) == "");
  // … but not be asked for later.
  CHECK(broken(Story().run(1, 100, 200, 12, "shared").run(2, 150, 220, 11, "shared")) == "tokens");
  CHECK(broken(Story().run(1, 100, 200, 12).run(2, 210, 300, 11), {.clock_beyond_margin = true}) == "tokens");
}

TEST_CASE("nothing succeeds with a superseded token") {
  CHECK(broken(Story().acquire(1, 100, 11).run(2, 200, 300, 12).use(1, "renew", 250, 260, 11)) == "stale");
  CHECK(broken(Story().acquire(1, 100, 11).run(2, 200, 300, 12).use(1, "release", 250, 260, 11)) == "stale");
  // Sent before: it may have been done before.
  CHECK(broken(Story().acquire(1, 100, 11).run(2, 200, 300, 12).use(1, "release", 150, 260, 11)) == "");
  CHECK(broken(Story().acquire(1, 100, 11).run(2, 200, 300, 12).use(1, "renew", 250, 260, 11, 76)) == "");
}

TEST_CASE("nothing succeeds after the lease has ended") {
  const Story held = Story().acquire(1, 100, 11);
  CHECK(broken(Story(held).use(1, "release", 200, 210, 11).use(1, "renew", 220, 230, 11)) == "stale");
  CHECK(broken(Story(held).use(1, "renew", 4500, 4510, 11)) == "stale");
  CHECK(broken(Story(held).use(1, "renew", 2000, 2010, 11).use(1, "renew", 4500, 4510, 11)) == "");
  // An unanswered renewal may have been made, and may still be made.
  CHECK(broken(Story(held).use(1, "renew", 2000, 2010, 11, 69).use(1, "renew", 5500, 5510, 11)) == "");
  const Event revoked{.kind = "revoke", .t = 150 * k_ms, .from = 140 * k_ms, .token = 11, .key = "k"};
  CHECK(broken(Story(held).add(revoked).use(1, "renew", 160, 170, 11)) == "stale");
  CHECK(broken(Story(held).add(revoked).use(1, "renew", 145, 170, 11)) == "");
  CHECK(broken(Story(held).run(2, 120, 130, 12).add(revoked)) == "stale");
}

TEST_CASE("nothing succeeds with another's lease") {
  const Story two = Story().acquire(1, 100, 11).use(1, "release", 150, 160, 11).acquire(2, 200, 12);
  CHECK(broken(Story(two).use(1, "release", 250, 260, 12)) == "stale");
  CHECK(broken(Story(two).use(1, "release", 250, 260, 12, 76)) == "");
  CHECK(broken(Story(two).use(2, "release", 250, 260, 12)) == "");
}

TEST_CASE("no lock is granted before a lease and its margin are over, unless it was released") {
  const Story held = Story().terms().acquire(1, 100, 11).alive(1, 150);  // asked for at 95
  CHECK(broken(Story(held).run(2, 200, 300, 12)) == "deadline");
  CHECK(broken(Story(held).run(2, 3690, 3700, 12)) == "deadline");
  CHECK(broken(Story(held).run(2, 3696, 3700, 12)) == "");
  CHECK(broken(Story(held).run(2, 3690, 3700, 12), {.clock_beyond_margin = true}) == "");
  CHECK(broken(Story(held).use(1, "renew", 1000, 1010, 11).run(2, 4590, 4700, 12)) == "deadline");
  CHECK(broken(Story(held).use(1, "renew", 1000, 1010, 11).run(2, 4601, 4700, 12)) == "");
  const auto released = [&](Nanos at, int code) {
    return broken(Story(held).use(1, "release", at, at + 10, 11, code).run(2, 200, 300, 12));
  };
  CHECK(released(190, 0) == "");
  CHECK(released(190, 69) == "");
  CHECK(released(250, 69) == "deadline");
  const auto application = [](int code) {
    return broken(Story()
                      .terms()
                      .invoke(1, 95, "application")
                      .begin(1, 100, 11)
                      .ret(1, 160, code)
                      .run(2, 200, 300, 12));
  };
  CHECK(application(0) == "deadline");
  CHECK(application(-9) == "");  // it may have released
}

TEST_CASE("who has no guardian does nothing after its lease has ended") {
  const Story held = Story().terms().acquire(1, 100, 11);
  CHECK(broken(Story(held).alive(1, 3098)) == "");
  CHECK(broken(Story(held).alive(1, 3101)) == "deadline");
  CHECK(broken(Story(held).use(1, "renew", 1000, 1010, 11).alive(1, 4009)) == "");
  CHECK(broken(Story(held).use(1, "renew", 1000, 1010, 11).alive(1, 4011)) == "deadline");
  CHECK(broken(Story(held).use(1, "renew", 1000, 1010, 11, 69).alive(1, 9000)) == "");
}

TEST_CASE("who comes later is not granted a lock before one who stands in the line") {
  const Story one = Story().terms().run(1, 100, 200, 11).invoke(9, 110, "acquire").ret(9, 9000, 75);
  const auto then = [&](Nanos asked, Nanos begun, Nanos stood_until) {
    return broken(Story(one)
                      .line(9, 150, stood_until)
                      .invoke(2, asked)
                      .begin(2, begun, 12)
                      .end(2, begun + 1)
                      .ret(2, begun + 2));
  };
  CHECK(then(560, 570, 580) == "line");
  CHECK(then(560, 570, 570) == "");  // the other may have left before
  CHECK(then(540, 570, 580) == "");  // by the server's clock it may have come first
  CHECK(then(560, 2790, 5000) == "line");
  CHECK(then(560, 2810, 5000) == "");  // the lock may have been free for three seconds
  CHECK(broken(Story(one).line(2, 150, 580).run(2, 570, 575, 12)) == "");  // its own place
  // Who passes a place deletes it.
  CHECK(broken(Story(one).line(9, 150, 5000).run(2, 2810, 2820, 12).run(3, 2900, 2910, 13)) == "");
}

TEST_CASE("the fenced store takes no old token") {
  const Story both = Story().run(1, 100, 200, 11).run(2, 210, 300, 12);
  CHECK(broken(Story(both).write(1, 150, 11).write(2, 220, 12).write(1, 230, 11, false)) == "");
  CHECK(broken(Story(both).write(1, 150, 11).write(2, 220, 12).write(1, 230, 11)) == "stale");
  CHECK(broken(Story(both).write(1, 150, 11).write(2, 220, 11)) == "stale");
  CHECK(broken(Story(both).write(2, 220, 12).write(1, 230, 11), {.clock_beyond_margin = true}) == "stale");
}

TEST_CASE("no transaction with dblock_assert_held commits beside another holder") {
  const Story both = Story().run(1, 100, 200, 11).run(2, 210, 300, 12);
  CHECK(broken(Story(both).stored(1, 110, 205, 11, 0).stored(2, 220, 230, 12, 11)) == "");
  CHECK(broken(Story(both).stored(1, 110, 220, 11, 0)) == "stale");
  CHECK(broken(Story(both).stored(1, 110, 220, 11, 0), {.clock_beyond_margin = true}) == "stale");
  CHECK(broken(Story(both).stored(1, 220, 230, 11, 12)) == "stale");
  const Story superseded = Story().acquire(1, 100, 11).run(2, 200, 300, 12);
  CHECK(broken(Story(superseded).use(1, "store", 250, 260, 11)) == "stale");
  CHECK(broken(Story(superseded).use(1, "store", 250, 260, 11, 76)) == "");
  const Story held = Story().acquire(1, 100, 11);
  CHECK(broken(Story(held).use(1, "store", 4500, 4510, 11)) == "stale");
  CHECK(broken(Story(held).use(1, "store", 2000, 2010, 11).use(1, "store", 4500, 4510, 11)) == "stale");
  CHECK(broken(Story(held).use(1, "release", 200, 210, 11).use(1, "store", 220, 230, 11)) == "stale");
}

TEST_CASE("no lock is granted under a pause") {
  const Event paused{.kind = "paused", .t = 300 * k_ms, .from = 90 * k_ms, .key = "k"};
  const auto asked = [&](Nanos at) {
    return Story().add(paused).invoke(1, at).begin(1, 100, 11).end(1, 200).ret(1, 205);
  };
  CHECK(broken(asked(95)) == "outcome");
  // It may have been granted before, and have begun late.
  CHECK(broken(asked(85)) == "");
  CHECK(broken(asked(95), {.clock_beyond_margin = true}) == "");
  CHECK(broken(Story().add(paused).run(1, 310, 400, 11)) == "");
}

TEST_CASE("who cannot renew has stopped when the lease ends") {
  const auto frozen = [](Nanos until, Nanos dark_until, int op, int group) {
    return Story()
        .invoke(1, 95, "run", 2)
        .begin(1, 100, 11)
        .alive(1, until)
        .ret(1, until + 5, 76)
        .dark(500, dark_until, op, group);
  };
  CHECK(broken(frozen(4400, 9000, 1, -1)) == "");
  CHECK(broken(frozen(4600, 9000, 1, -1)) == "deadline");
  CHECK(broken(frozen(4600, 9000, 0, -1)) == "deadline");
  CHECK(broken(frozen(4600, 9000, 0, 2)) == "deadline");
  CHECK(broken(frozen(4600, 9000, 0, 1)) == "");
  CHECK(broken(frozen(4600, 9000, 7, -1)) == "");
  CHECK(broken(frozen(9000, 4400, 0, -1)) == "");  // renewed when it was over
  const auto application = [](Nanos until) {
    return Story().invoke(1, 95, "application").begin(1, 100, 11).alive(1, until).ret(1, until + 5, 76);
  };
  CHECK(broken(application(4400).dark(500, 9000, 1)) == "");
  CHECK(broken(application(4600).dark(500, 9000, 1)) == "deadline");
  CHECK(broken(Story().dark(500, 9000).invoke(1, 9095).begin(1, 9100, 11).end(1, 20000).ret(1, 20005)) == "");
}

TEST_CASE("what was answered is what happened") {
  CHECK(broken(Story().invoke(1, 95).begin(1, 100, 11).end(1, 200).ret(1, 205, 75)) == "outcome");
  CHECK(broken(Story().invoke(1, 95).begin(1, 100, 11).end(1, 200).ret(1, 205, 69)) == "outcome");
  CHECK(broken(Story().invoke(1, 95).ret(1, 205, 0)) == "outcome");
  CHECK(broken(Story().invoke(1, 95).begin(1, 100, 11).ret(1, 205, 0)) == "outcome");
  CHECK(broken(Story().invoke(1, 95).begin(1, 100, 11).end(1, 200).ret(1, 205, 0, true)) == "outcome");
  CHECK(broken(Story().invoke(1, 95).begin(1, 100, 11).alive(1, 200).ret(1, 205, -9, true)) == "");
  CHECK(broken(Story().invoke(1, 95)) == "outcome");
  CHECK(broken(Story().invoke(1, 95), {.goes_on = true}) == "");
  CHECK(broken(Story().invoke(1, 95).ret(1, 99, 76)) == "");
  CHECK(broken(Story().invoke(1, 95).ret(1, 99, 0).add({.kind = "late", .say = "it came too late"})) ==
        "outcome outcome");
  Story twice = Story().invoke(1, 95).begin(1, 100, 11).end(1, 200);
  CHECK(broken(twice.begin(1, 300, 12).end(1, 310).ret(1, 320)) == "overlap outcome");
}

TEST_CASE("nothing is left behind") {
  const Story story = Story().run(1, 100, 200, 11);
  CHECK(broken(Story(story).add({.kind = "final", .token = 11, .held = true, .key = "k"})) == "outcome");
  CHECK(broken(Story(story).add({.kind = "final", .token = 10, .key = "k"})) == "outcome");
  CHECK(broken(Story(story).add({.kind = "final", .token = 12, .key = "k"})) == "");
}

TEST_CASE("a history is read as it was written") {
  const Event event{
      .kind = "return", .t = 17, .op = 3, .group = 0, .code = -9, .alive = true, .key = "k\"\n\xff"};
  std::stringstream file;
  file << to_line(event) << to_line({.kind = "end", .t = 18, .op = 3}) << R"({"t":19,"e":"al)";
  const auto read = read_history(file);
  REQUIRE(read.size() == 2);
  CHECK(read[0].kind == "return");
  CHECK(read[0].op == 3);
  CHECK(read[0].group == 0);
  CHECK(read[0].code == -9);
  CHECK(read[0].alive);
  CHECK(read[0].key.starts_with("k\"\n"));
  CHECK(read[1].group == -1);
  std::istringstream broken_off("{\"t\":1,\"e\":\"end\"}\nnonsense\n{\"t\":2,\"e\":\"end\"}\n");
  CHECK_THROWS(read_history(broken_off));
}

TEST_CASE("what was exercised is counted") {
  Story story;
  story.acquire(1, 100, 11).run(2, 5200, 5300, 12).run(3, 5310, 5400, 13);
  story.invoke(4, 5400).begin(4, 5410, 14).ret(4, 9000, 76).run(5, 10000, 10010, 15);
  story.write(2, 5210, 12).write(1, 5220, 11, false);
  const Exercise all = count(story.events());
  CHECK(all.operations == 5);
  CHECK(all.grants == 5);
  CHECK(all.takeovers == 2);
  CHECK(all.fenced == 1);
  CHECK(all.writes == 2);
  CHECK(all.refused_writes == 1);
}

TEST_CASE("requests that met readers, or slots that were all taken, are counted") {
  const auto readers = Story().run(1, 100, 300, 11, "shared").run(2, 150, 400, 12, "shared");
  const auto then = [](Story story, Nanos asked, const std::string& mode, int slots = 1) {
    story.add({.kind = "invoke", .t = asked * k_ms, .op = 9, .slots = slots, .key = "k", .mode = mode});
    return count(story.ret(9, asked + 5, 75).events());
  };
  CHECK(then(readers, 350, "exclusive").met_readers == 1);
  CHECK(then(readers, 401, "exclusive").met_readers == 0);
  CHECK(then(readers, 350, "shared").met_readers == 0);
  const auto slots = Story().run(1, 100, 300, 11, "slots", 2).run(2, 150, 400, 12, "slots", 2);
  CHECK(then(slots, 149, "slots", 2).met_full_slots == 0);
  CHECK(then(slots, 250, "slots", 2).met_full_slots == 1);
  CHECK(then(slots, 350, "slots", 2).met_full_slots == 0);
}

TEST_CASE("jobs that were at work when dblock was killed are counted") {
  const auto killed = [](Nanos at) {
    Story story;
    story.run(1, 100, 200, 11).invoke(2, 205).ret(2, 290, -9);
    story.add({.kind = "fault", .t = at * k_ms, .op = 1, .what = "kill dblock"});
    story.add({.kind = "fault", .t = at * k_ms, .op = 2, .what = "kill dblock"});
    return count(story.events()).orphaned;
  };
  CHECK(killed(99) == 0);
  CHECK(killed(150) == 1);
  CHECK(killed(250) == 0);
}

TEST_CASE("what applications exercised is counted apart") {
  Story story;
  story.run(1, 100, 200, 11);
  story.invoke(2, 205, "application").begin(2, 210, 12).use(2, "store", 220, 230, 12);
  story.use(2, "store", 3500, 3510, 12, 76).ret(2, 3600, 76);
  story.invoke(3, 205, "application that waits")
      .begin(3, 5300, 13)
      .use(3, "release", 5310, 5320, 13)
      .ret(3, 5330);
  story.invoke(4, 5340, "application")
      .begin(4, 5350, 14)
      .use(4, "release", 5360, 5370, 14, 69)
      .ret(4, 5380, 76);
  story.run(5, 5400, 5500, 15);
  const Exercise all = count(story.events());
  CHECK(all.grants == 5);
  CHECK(all.takeovers == 1);  // the fourth lease may have been released
  CHECK(all.by_applications.grants == 3);
  CHECK(all.by_applications.takeovers == 1);
  CHECK(all.by_applications.lost == 2);
  CHECK(all.by_applications.stores == 1);
  CHECK(all.by_applications.refused_stores == 1);
}

TEST_CASE("a long history is judged in a moment") {
  Story story;
  constexpr int k_many = 50'000;
  for (int op = 1; op <= k_many; ++op) {
    story.run(op, op * 10, op * 10 + 9, op);
    if (op % 100 == 0) story.dark(op * 10, op * 10 + 5);
  }
  CHECK(broken(story) == "");
}

}  // namespace dblock::campaign
