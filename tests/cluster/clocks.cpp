// A Galera cluster whose third node's clock is a second ahead: harmless while leases have a longer margin.
#include <ctime>

#include "cluster/runs.hpp"
#include "support/catch.hpp"
#include "support/overlap.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

constexpr int k_fast = 3;
constexpr long long k_ttl_ns = 2'000'000'000;

std::string why_no_skewed_cluster() {
  const std::string reason = why_no_cluster();
  return reason.empty() ? why_no_faketime() : reason;
}

// A server has threads, and its own clock for waiting is left alone.
Cluster& skewed_cluster() {
  static Cluster cluster(
      Words{"LD_PRELOAD=" + faketime_library_for_threads(), "FAKETIME=+1", "FAKETIME_DONT_FAKE_MONOTONIC=1"});
  return cluster;
}

// Tries again and again to run an interval job on this node until it has begun; the run goes on.
Process begin_on(int node, const ClusterDatabase& database, const Words& lease, const Words& job) {
  const std::string log = job.at(2);
  const auto before = read_intervals(log).size();
  for (const auto end = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < end;) {
    Process run(database.at({node}, run_words("k", lease, job)));
    REQUIRE(wait_until([&] { return read_intervals(log).size() > before || !run.running(); }));
    if (read_intervals(log).size() > before) return run;
    INFO(run.err());
    REQUIRE(run.wait() == exited(75));
  }
  throw std::runtime_error("never granted");
}

// How long before the end of an `acquire`d lease, as its holder counts it, the fast node gave the lock away.
long long given_away_early_ns(const ClusterDatabase& database, const std::string& margin) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const TempDir directory;
    const std::string log = directory.file("log");
    const long long asked = boot_nanos();
    REQUIRE(database.ask({1}, {"acquire", "--key", "k", "--ttl", "2s", "--margin", margin}).exit ==
            exited(0));
    const long long answered = boot_nanos();
    auto heir = begin_on(k_fast, database, {}, interval_job(log, 1));
    REQUIRE(heir.wait() == exited(0));
    // A machine that takes longer over the question may have let the lease begin as much later: again.
    if (answered - asked < 500'000'000) return asked + k_ttl_ns - read_intervals(log).front().begin_ns;
  }
  throw std::runtime_error("no lease was granted within half a second");
}

TEST_CASE("the third node's clock is ahead at all in these cases", "[clocks]") {
  DBLOCK_NEEDS(why_no_skewed_cluster());
  auto fast = skewed_cluster().sql(k_fast);
  const auto ahead =
      fast.number("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))") - realtime_micros();
  CHECK(ahead > 900'000);
  CHECK(ahead < 1'100'000);
}

TEST_CASE("a node ahead by less than the margin gives no lease away before its end", "[clocks]") {
  DBLOCK_NEEDS(why_no_skewed_cluster());
  const ClusterDatabase database(skewed_cluster());
  CHECK(given_away_early_ns(database, "1500ms") <= 0);
  // What the margin is for: without it the same node is a second early.
  CHECK(given_away_early_ns(database, "0") > 500'000'000);
}

TEST_CASE("frozen holders on nodes with different clocks never overlap with their heirs", "[clocks]") {
  DBLOCK_NEEDS(why_no_skewed_cluster());
  const ClusterDatabase database(skewed_cluster());
  const TempDir directory;
  const std::string log = directory.file("log");
  // Its job ends only when the guardian kills it, at the end of the lease.
  const Words lease{"--ttl", "2s", "--margin", "1500ms"};
  const Words job{job_binary(), "family", log, "600000"};
  std::vector<Process> frozen;
  for (const int node : {1, k_fast, 2, k_fast, 1}) {
    frozen.push_back(begin_on(node, database, lease, job));
    frozen.back().freeze();
  }
  const auto intervals = read_intervals(log);
  CHECK(intervals.size() == frozen.size());
  CHECK(exclusion_violation_despite_kills(intervals) == "");
}

TEST_CASE("tokens rise from node to node whatever their clocks say", "[clocks]") {
  DBLOCK_NEEDS(why_no_skewed_cluster());
  const ClusterDatabase database(skewed_cluster());
  unsigned long long last = 0;
  for (const int node : {1, k_fast, 2, 1, k_fast, 1}) {
    for (const Words& options : {Words{}, Words{"--slots", "2"}, Words{"--shared"}}) {
      auto spec = database.at({node}, run_words("t", options, {"printenv", "DBLOCK_TOKEN"}));
      const auto finished = run_program(spec);
      INFO(finished.err);
      REQUIRE(finished.exit == exited(0));
      const auto token = std::stoull(finished.out);
      CHECK(token > last);
      last = token;
    }
  }
}

TEST_CASE("clocks that differ by more than the margin are told of where a row shows it", "[clocks]") {
  DBLOCK_NEEDS(why_no_skewed_cluster());
  const ClusterDatabase database(skewed_cluster());
  const std::string warning = "ahead of the clock of the server that answers us";
  for (const auto& [margin, told] : {std::pair{"100ms", true}, std::pair{"1500ms", false}}) {
    INFO(margin);
    const Words acquire{"acquire", "--key", margin, "--ttl", "30s", "--margin", margin};
    REQUIRE(database.ask({k_fast}, acquire).exit == exited(0));
    const auto refused = database.ask({1}, run_words(margin, {}, {"true"}));
    INFO(refused.err);
    CHECK(refused.exit == exited(75));
    CHECK(says(refused.err, warning) == told);
  }
}

}  // namespace
}  // namespace dblock::test
