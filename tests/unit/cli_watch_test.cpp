// inspect --watch: how it is asked for, and what it draws.
#include <algorithm>

#include "base/width.hpp"
#include "cli/report/picture.hpp"
#include "cli_fixture.hpp"
#include "support/catch.hpp"

namespace dblock::cli {
namespace {

using Lines = std::vector<std::string>;

lease::LockStatus held(const std::string& key, const std::string& owner, Micros renewed_at) {
  lease::LockStatus status;
  status.key = key;
  status.state = lease::State::held;
  status.owner = owner;
  status.holder = {"host", 42, "user", "etl", "note"};
  status.server_time.since_epoch = 1h;
  status.renewed_at = lease::ServerTime{renewed_at};
  status.expires_at = lease::ServerTime{1h + 30s};
  return status;
}

// The row of `key`, with the mark before it.
std::string row_of(const Picture& picture, const std::string& key) {
  for (const auto& line : picture.lines(120, 40, 0s)) {
    if (line.size() > 3 && line.compare(3, key.size(), key) == 0) return line;
  }
  return {};
}

Picture plain_picture() {
  return Picture({.every = 1s});
}

TEST_CASE("a lock that was renewed or taken since the last picture is marked in this one") {
  auto picture = plain_picture();
  picture.set_report(report_of({held("a", "1", 10s), held("b", "2", 10s), held("c", "3", 10s)}));
  for (const char* key : {"a", "b", "c"}) CHECK(row_of(picture, key).starts_with("   "));
  picture.set_report(
      report_of({held("a", "1", 10s), held("b", "2", 11s), held("c", "4", 12s), held("d", "5", 12s)}));
  CHECK(row_of(picture, "a").starts_with("   a"));
  CHECK(row_of(picture, "b").starts_with("*  b"));
  CHECK(row_of(picture, "c").starts_with("+  c"));
  CHECK(row_of(picture, "d").starts_with("+  d"));
  picture.set_report(report_of({held("b", "2", 11s)}));
  CHECK(row_of(picture, "b").starts_with("   b"));
}

TEST_CASE("readers of one lock are marked one by one") {
  auto picture = plain_picture();
  auto first = held("k", "1", 10s);
  auto second = held("k", "2", 10s);
  first.slot = 1;
  second.slot = 2;
  picture.set_report(report_of({first, second}));
  second.renewed_at = lease::ServerTime{11s};
  picture.set_report(report_of({first, second}));
  const auto lines = picture.lines(120, 40, 0s);
  CHECK(std::ranges::count_if(lines, [](const auto& line) { return line.starts_with("*  k"); }) == 1);
  CHECK(std::ranges::count_if(lines, [](const auto& line) { return line.starts_with("   k"); }) == 1);
}

TEST_CASE("the picture says when it is from, and why there is no newer one") {
  auto picture = plain_picture();
  picture.set_report(report_of({held("k", "1", 10s)}));
  const auto good = picture.lines(200, 40, 0s);
  CHECK(good[0] == "dblock: 1 held at 01:00:00 UTC; every 1s, + new, * renewed, q quits");
  CHECK(good[1].empty());
  picture.set_trouble("cannot list locks");
  const auto bad = picture.lines(200, 40, 12s);
  CHECK(bad.size() == good.size());  // the table stays where it was
  CHECK(bad[0] == "dblock: 1 held at 01:00:00 UTC, 12s ago; every 1s, + new, * renewed, q quits");
  CHECK(bad[1] == "trouble: cannot list locks");
  CHECK(bad.back() == good.back());
  picture.set_report(report_of({held("k", "1", 10s)}));
  CHECK(picture.lines(200, 40, 0s) == good);
}

TEST_CASE("a picture fits its window") {
  Picture picture({.every = 1s, .all = true});
  std::vector<lease::LockStatus> locks;
  for (int i = 10; i < 30; ++i) locks.push_back(held("key-" + std::to_string(i), "o", 0s));
  locks.front().holder.note = std::string(300, 'x');
  auto report = report_of(locks);
  report.local_store = "sqlite:/var/lib/dblock/locks.db";
  picture.set_report(report);
  for (const std::size_t rows : {1, 2, 3, 4, 5, 10, 24, 40}) {
    for (const std::size_t columns : {0, 1, 20, 80, 200}) {
      const auto lines = picture.lines(columns, rows, 0s);
      CHECK(lines.size() <= rows);
      for (const auto& line : lines) CHECK((columns == 0 || display_width(line) <= columns));
    }
  }
  const auto lines = picture.lines(80, 10, 0s);
  CHECK(lines.size() == 10);
  CHECK(lines.back() == "… and 15 more");
  CHECK(lines[lines.size() - 2].starts_with("   key-14"));
  CHECK(picture.lines(80, 24, 0s).back().starts_with("   key-29"));
}

TEST_CASE("a picture without locks says so") {
  auto picture = plain_picture();
  picture.set_report(report_of({}));
  CHECK(picture.lines(80, 24, 0s).back() == "  no lock is held");
}

std::optional<Micros> watched_every(const World& world, const Words& more) {
  Words words{"inspect"};
  words.insert(words.end(), more.begin(), more.end());
  return world.request<app::InspectRequest>(words).watch;
}

TEST_CASE("the interval of --watch may be left out") {
  const World world;
  CHECK(watched_every(world, {}) == std::nullopt);
  CHECK(watched_every(world, {"--watch"}) == 1s);
  CHECK(watched_every(world, {"--watch", "2s"}) == 2s);
  CHECK(watched_every(world, {"--watch=250ms"}) == 250ms);
  CHECK(watched_every(world, {"--watch", "--key", "k"}) == 1s);
  CHECK(watched_every(world, {"--watch", "-k", "k"}) == 1s);
  CHECK(watched_every(world, {"--watch", "5m", "--all"}) == 5min);
}

TEST_CASE("a word after --watch that is no duration is not taken for one") {
  const World world;
  const auto message = [&](const Words& words) {
    const auto line = world.read(words);
    REQUIRE(line.error.has_value());
    CHECK(line.error->code == Errc::usage);
    CHECK(std::holds_alternative<std::monostate>(line.request));
    return line.error->message;
  };
  CHECK_THAT(message({"inspect", "--watch", "etl"}), Catch::Contains("takes no argument \"etl\""));
  CHECK_THAT(message({"inspect", "--watch", "10"}), Catch::Contains("write 10s"));
  CHECK_THAT(message({"inspect", "--watch=soon"}), Catch::Contains("--watch"));
  CHECK_THAT(message({"inspect", "--watch="}), Catch::Contains("--watch"));
  CHECK_THAT(message({"inspect", "--watch", "10ms"}), Catch::Contains("at least 100ms"));
  CHECK_THAT(message({"inspect", "--watch", "0"}), Catch::Contains("at least 100ms"));
  CHECK_THAT(message({"inspect", "--watch", "--key", "k", "--exit-code"}), Catch::Contains("--exit-code"));
  CHECK_THAT(message({"inspect", "--watch", "--key", "k", "--max-age", "1h"}), Catch::Contains("--max-age"));
  CHECK_THAT(message({"inspect", "--watch", "--max-held", "1h"}), Catch::Contains("--max-held"));
  CHECK_THAT(message({"inspect", "--watch", "--format", "prometheus"}), Catch::Contains("prometheus"));
}

TEST_CASE("a configuration file may switch --watch on and off") {
  World world;
  for (const auto& [text, every] : std::vector<std::pair<std::string, std::optional<Micros>>>{
           {"yes", 1s}, {"no", std::nullopt}, {"3s", 3s}}) {
    world.write("system.conf", "[inspect]\nwatch = " + text + "\n");
    CHECK(watched_every(world, {}) == every);
  }
}

}  // namespace
}  // namespace dblock::cli
