// A Galera cluster, or a MySQL replication group, that falls apart: what has no majority grants nothing, and
// nothing overlaps.
#include <algorithm>
#include <memory>
#include <random>

#include "cluster/runs.hpp"
#include "support/catch.hpp"
#include "support/group.hpp"
#include "support/overlap.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

// `says_why`: what a run is told that asks a node without a majority.
void check_minority(Nodes& nodes, const Words& lease, const std::string& says_why) {
  const ClusterDatabase database(nodes);
  const TempDir directory;
  const std::string log = directory.file("log");
  Process holder(database.at({3}, run_words("k", lease, interval_job(log, 600000))));
  REQUIRE(wait_until([&] { return !read_intervals(log).empty(); }));
  nodes.isolate(3);
  nodes.await_cut_off(3);
  const long long kept_until = database.rows.expires_micros("k") + 500'000;
  Process successor(database.at({1, 2}, run_words("k", {"--wait", "60s"}, interval_job(log, 10))));

  const auto refused = database.ask({3}, run_words("new", {}, {"touch", directory.file("never")}));
  INFO(refused.err);
  CHECK(refused.exit == exited(69));
  CHECK(says(refused.err, says_why));
  CHECK_FALSE(database.rows.has_row("new"));
  CHECK(read_file(directory.file("never")).empty());
  // Those who are told of the other nodes go there.
  CHECK(database.tries({3, 1}) == once(75));
  CHECK(database.ask({3, 1}, run_words("new", {}, {"true"})).exit == exited(0));

  CHECK(holder.wait(30s) == exited(76));
  CHECK(successor.wait(30s) == exited(0));
  CHECK(database.rows.micros("k", "last_acquired_at") >= kept_until);
  CHECK(exclusion_violation_despite_kills(read_intervals(log)) == "");

  nodes.heal(3);
  nodes.await_rejoined(3);
  CHECK(database.tries({3}) == once(0));
}

TEST_CASE("a minority grants nothing and its holder is stopped before the majority takes over",
          "[partition]") {
  DBLOCK_NEEDS(why_no_cluster());
  check_minority(shared_cluster(), {"--ttl", "8s", "--kill-grace", "500ms", "--margin", "500ms"},
                 "cut off from the majority");
}

void check_crowd(Nodes& nodes) {
  const auto seed = chosen_seed();
  INFO("seed " << seed);
  std::minstd_rand random(seed);
  const ClusterDatabase database(nodes);
  const TempDir directory;
  const std::string log = directory.file("log");
  std::vector<Process> runs;
  const Words options{"--wait", "100s", "--ttl", "18s", "--kill-grace", "1s"};
  const auto gather = [&] {
    auto running = std::ranges::count_if(runs, [](auto& run) { return run.running(); });
    for (; running < 9; ++running) {
      const int first = 1 + static_cast<int>(runs.size()) % 3;
      const std::vector<int> hosts{first, first % 3 + 1, (first + 1) % 3 + 1};
      runs.emplace_back(database.at(hosts, run_words("k", options, interval_job(log, 100))));
    }
  };
  const auto goes_on = [&] {
    const auto begun = [&] { return read_intervals(log).size(); };
    return wait_until([&, from = begun()] { return gather(), begun() > from + 2; }, 60s);
  };
  REQUIRE(goes_on());
  const int victim = 2 + static_cast<int>(random() % 2);
  nodes.kill(victim);
  CHECK(goes_on());
  nodes.start(victim);
  CHECK(goes_on());
  nodes.freeze(victim);
  CHECK(goes_on());
  pause_for(milliseconds(random() % 1000));
  nodes.thaw(victim);
  nodes.await_rejoined(victim);
  CHECK(goes_on());
  nodes.isolate(victim);
  CHECK(goes_on());
  nodes.heal(victim);
  nodes.await_rejoined(victim);
  CHECK(goes_on());
  std::size_t succeeded = 0;
  for (auto& run : runs) {
    const Exit exit = run.wait(120s);
    INFO(run.err());
    CHECK((exit == exited(0) || exit == exited(76)));
    succeeded += exit == exited(0) ? 1 : 0;
  }
  CHECK(succeeded + 5 >= runs.size());
  CHECK(exclusion_violation_despite_kills(read_intervals(log)) == "");
}

TEST_CASE("a crowd never overlaps while nodes are killed, frozen and cut off", "[partition]") {
  DBLOCK_NEEDS(why_no_cluster());
  check_crowd(shared_cluster());
}

// A member without a majority stays in the group, and what it has not committed waits.
TEST_CASE("a minority of a replication group grants nothing, and a crowd on all members never overlaps",
          "[group_partition]") {
  DBLOCK_NEEDS(why_no_group());
  Group& group = shared_group(Group::Mode::multi_primary);
  check_minority(group, {"--ttl", "15s", "--kill-grace", "500ms", "--margin", "500ms"},
                 "is not an ONLINE member of its replication group");
  check_crowd(group);
}

// A line of requests that know one member alone, and of others. The member is cut off, and later a member
// again that takes writes.
class DividedLine {
 public:
  DividedLine(Group& group, int lone, const std::vector<int>& others)
      : group_(group), database_(group, lone), lone_(lone), others_(others) {}

  [[nodiscard]] ClusterDatabase& database() { return database_; }

  void form() {
    for (const char* const key : {"q", "n"}) {
      const auto taken = database_.ask({lone_}, {"acquire", "--key", key, "--ttl", "1h"});
      INFO(taken.err);
      REQUIRE(taken.exit == exited(0));
      owners_.push_back(lines(taken.out).at(0));
    }
    holder_ = start({lone_}, run_words("k", {"--ttl", "15s", "--kill-grace", "500ms", "--margin", "500ms"},
                                       sleeping_job(directory_)));
    await_file(*holder_, directory_.file("up"));
    first_ = join({lone_}, run_words("k", k_waits, says_its_name("first")), "k");
    Words pool{"run", "--any", "k", "--any", "q"};
    pool_ = join({lone_}, with(with(with(pool, k_waits), {"--"}), says_its_name("pool")), "q");
    REQUIRE(soon_in_line(database_.rows, 2));
    const std::string held =
        "touch " + directory_.file("second-up") + "; " + await_in_shell(directory_.file("end"));
    second_ = join(others_, run_words("k", k_waits, sh("echo second >>" + log() + "; " + held)), "k");
    third_ = join(others_, run_words("k", k_waits, says_its_name("third")), "k");
    older_ = join({lone_}, run_words("n", with({"--line", "newest"}, k_waits), says_its_name("older")), "n");
    arrived_ = database_.rows.line();
    REQUIRE(arrived_.size() == 4);
  }

  // The others grant what the holder has lost; the one grants nothing, and they pause a lock.
  void check_divided(const Words& reasons) {
    const auto paused = [&] {
      return database_.ask(others_, {"pause", "--key", "paused", "--for", "1h"}).exit == exited(0);
    };
    REQUIRE(wait_until(paused, 60s));
    for (const Words& asked :
         {Words{"run", "--any", "x", "--any", "y", "--", "true"},
          run_words("x", {"--line", "newest"}, {"true"}), run_words("paused", {}, {"true"})}) {
      const auto refused = database_.ask({lone_}, asked);
      CAPTURE(asked, refused.err);
      CHECK(refused.exit == exited(69));
      CHECK(std::ranges::any_of(reasons, [&](const auto& reason) { return says(refused.err, reason); }));
    }
    newer_ =
        start(others_, run_words("n", with({"-v", "--line", "newest"}, k_waits), says_its_name("newer")));
    REQUIRE(soon_says(*newer_, "waiting"));
    CHECK(holder_->wait(60s) == exited(76));
    await_file(*second_, directory_.file("second-up"), 60s);
    CHECK(ran() == Words{"second"});
    for (auto* const waiter : {&first_, &pool_, &older_}) CHECK((*waiter)->running());
  }

  // Who was cut off has its old place again, and makes way for who is newer; all obey the pause.
  void check_mended(const std::vector<int>& writers) {
    CHECK(older_->wait(60s) == exited(75));
    const Words expected{arrived_[0], arrived_[1], arrived_[3]};
    CHECK(wait_until([&] { return database_.rows.line() == expected; }, 60s));
    for (const int writer : writers) {
      const auto refused = database_.ask({writer}, run_words("paused", {}, {"true"}));
      INFO(refused.err);
      CHECK(refused.exit == exited(75));
      CHECK(says(refused.err, "paused until"));
    }
    CHECK(ran() == Words{"second"});
    write_file(directory_.file("end"), "");
    for (auto* const waiter : {&second_, &first_, &pool_, &third_}) {
      INFO((*waiter)->err());
      CHECK((*waiter)->wait(60s) == exited(0));
    }
    CHECK(ran() == Words{"second", "first", "pool", "third"});
    CHECK(database_.ask({lone_}, {"release", "--key", "n", "--owner", owners_.at(1)}).exit == exited(0));
    CHECK(newer_->wait(60s) == exited(0));
    CHECK(ran().back() == "newer");
  }

 private:
  using Run = std::unique_ptr<Process>;
  inline static const Words k_waits{"--wait", "300s"};

  [[nodiscard]] std::string log() const { return directory_.file("log"); }
  [[nodiscard]] Words ran() const { return lines(read_file(log())); }
  [[nodiscard]] Words says_its_name(const std::string& name) const {
    return sh("echo " + name + " >>" + log());
  }
  [[nodiscard]] Run start(const std::vector<int>& nodes, const Words& words) const {
    return std::make_unique<Process>(database_.at(nodes, words));
  }
  // Returns once it has its place, as the others have seen by then.
  [[nodiscard]] Run join(const std::vector<int>& nodes, const Words& words, const std::string& key) const {
    const auto places = database_.rows.line(key).size();
    Run run = start(nodes, words);
    const bool stands = soon_in_line(database_.rows, places + 1, key);
    INFO(run->err());
    REQUIRE(stands);
    return run;
  }

  Group& group_;
  ClusterDatabase database_;
  const int lone_;
  const std::vector<int> others_;
  const TempDir directory_;
  Words owners_, arrived_;
  Run holder_, first_, pool_, second_, third_, older_, newer_;
};

TEST_CASE(
    "a line across a member that keeps its group without a majority goes on without it, and with it again",
    "[group_partition]") {
  DBLOCK_NEEDS(why_no_group());
  Group& group = shared_group(Group::Mode::multi_primary);
  DividedLine line(group, 3, {1, 2});
  line.form();
  group.isolate(3);
  group.await_cut_off(3);
  line.check_divided({"not an ONLINE member"});
  group.heal(3);
  group.await_rejoined(3);
  line.check_mended({1, 2, 3});
}

// With this action a server that leaves its group ends its clients' sessions, and takes no more.
TEST_CASE("so does a line across a primary that goes offline when it has left its group",
          "[group_failover]") {
  DBLOCK_NEEDS(why_no_group());
  Group& group = shared_group(Group::Mode::single_primary);
  const int old = group.await_primary();
  DividedLine line(group, old, {1, 2, 3});
  line.form();
  auto left = group.sql(old);
  left.sql("SET GLOBAL group_replication_exit_state_action='OFFLINE_MODE'");
  group.isolate(old);
  group.await_left(old);
  REQUIRE(wait_until([&] { return left.value("SELECT @@global.offline_mode") == "1"; }));
  line.check_divided({"offline mode"});
  const auto doctored = line.database().ask({old}, {"doctor"});
  INFO(doctored.out << doctored.err);
  CHECK(doctored.exit == exited(78));
  CHECK(says(doctored.out, "offline mode"));
  CHECK_FALSE(says(doctored.out, "can it be reached"));
  group.heal(old);
  left.sql("SET GLOBAL offline_mode=OFF");
  left.sql("SET GLOBAL group_replication_exit_state_action='READ_ONLY'");
  group.await_rejoined(old);
  left.sql("SELECT group_replication_set_as_primary(@@server_uuid)");
  line.check_mended({old});
}

}  // namespace
}  // namespace dblock::test
