// Locks that several hold: readers, slots, and several keys at once.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/overlap.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using nlohmann::json;

// A run whose job is under way until it is told to end.
class Holder : public LiveRun {
 public:
  Holder(const Database& database, const std::string& key, const Words& options)
      : LiveRun(database, options, noting_job, key) {}
  // What the job was told as DBLOCK_SLOT or DBLOCK_TOKEN.
  [[nodiscard]] std::string told(const std::string& name) const { return read_file(file(name)); }
  void end() { CHECK(LiveRun::end() == exited(0)); }

 private:
  static Words noting_job(const TempDir& own) {
    std::string script;
    for (const std::string name : {"DBLOCK_SLOT", "DBLOCK_TOKEN"})
      script += "printf %s \"$" + name + "\" >" + own.file(name) + "; ";
    return sh(script + until_told(own));
  }
};

json listed(const Database& database) {
  return inspected(database).at("locks");
}

TEST_CASE("readers run side by side and keep writers out, and a writer keeps readers out",
          "[safety][other-servers]") {
  const Database database;
  Holder first(database, "k", {"--shared"});
  Holder second(database, "k", {"-s"});
  const auto refused = dblock(database, run_words("k", {}, {"true"}));
  CHECK(refused.exit == exited(75));
  CHECK(says(refused.err, "as a reader"));
  CHECK(run_true(database, "k", {"--shared"}) == exited(0));
  const auto locks = listed(database);
  REQUIRE(locks.size() == 2);
  for (const auto& lock : locks) {
    CHECK(lock.at("key") == "k");
    CHECK(lock.at("mode") == "shared");
    CHECK(lock.at("slot").is_null());
    CHECK(lock.at("state") == "held");
  }
  CHECK(locks[0].at("token") != locks[1].at("token"));
  CHECK(dblock(database, {"inspect", "--key", "k", "--exit-code"}).exit == exited(75));
  first.end();
  CHECK(run_true(database) == exited(75));
  second.end();
  CHECK(listed(database).empty());
  CHECK(dblock(database, {"inspect", "--key", "k", "--exit-code"}).exit == exited(0));
  Holder writer(database, "k", {});
  CHECK(run_true(database, "k", {"--shared"}) == exited(75));
  CHECK(listed(database).at(0).at("mode") == "exclusive");
  writer.end();
  CHECK(run_true(database, "k", {"--shared"}) == exited(0));
}

TEST_CASE("a waiting writer turns new readers away and runs when the old ones are gone", "[other-servers]") {
  const Database database;
  Holder reader(database, "k", {"--shared"});
  Process writer = waiting_run(database);
  CHECK(run_true(database, "k", {"--shared"}) == exited(75));
  CHECK(writer.running());
  reader.end();
  CHECK(writer.wait() == exited(0));
  CHECK(run_true(database, "k", {"--shared"}) == exited(0));
}

TEST_CASE("a waiting reader runs when the writer is gone") {
  const Database database;
  Holder writer(database, "k", {});
  Process reader = waiting_run(database, {"-s", "--wait", "60s"});
  writer.end();
  CHECK(reader.wait() == exited(0));
}

TEST_CASE("slots are given out from the first on, each once, and no more than there are",
          "[safety][other-servers][asan-server]") {
  const Database database;
  std::vector<std::unique_ptr<Holder>> holders;
  for (int i = 0; i < 3; ++i)
    holders.push_back(std::make_unique<Holder>(database, "k", Words{"--slots", "3"}));
  for (std::size_t i = 0; i < 3; ++i) CHECK(holders[i]->told("DBLOCK_SLOT") == std::to_string(i + 1));
  const auto refused = dblock(database, run_words("k", {"--slots", "3"}, {"true"}));
  CHECK(refused.exit == exited(75));
  CHECK(says(refused.err, "of 3"));
  const auto locks = listed(database);
  REQUIRE(locks.size() == 3);
  std::set<std::uint64_t> tokens;
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(locks[i].at("mode") == "slot");
    CHECK(locks[i].at("slot") == i + 1);
    tokens.insert(locks[i].at("token").get<std::uint64_t>());
  }
  CHECK(tokens.size() == 3);
  CHECK(says(dblock(database, {"inspect"}).out, "(slot 2 of 3)"));
  holders[1]->end();
  Holder again(database, "k", {"--slots", "3"});
  CHECK(again.told("DBLOCK_SLOT") == "2");
  for (const std::size_t i : {0U, 2U}) holders[i]->end();
  again.end();
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("of free slots as many as runs wait are left to them, and the next is for whoever asks") {
  const Database database;
  const Words two{"--slots", "2"};
  const auto asks = [&] { return run_true(database, "k", with(two, {"-n"})); };
  // The waiter is frozen, so that it leaves the slots free, and they are left to it for three seconds: a
  // machine that takes longer tries again.
  const auto one_is_left = [&] {
    Holder first(database, "k", two);
    Holder second(database, "k", two);
    Process waiter = waiting_run(database, with(two, {"--wait", "60s"}));
    waiter.freeze();
    first.end();
    const bool refused = asks() == exited(75);
    second.end();
    const bool granted = asks() == exited(0);
    waiter.signal(SIGCONT);
    CHECK(waiter.wait() == exited(0));
    CHECK(granted);
    return refused;
  };
  CHECK(wait_until(one_is_left));
}

TEST_CASE("another number of slots is refused with both named while the lock is held, and not after",
          "[safety][asan-local]") {
  const Database database;
  Holder holder(database, "k", {"--slots", "3"});
  for (const Words& options : {Words{"--slots", "5"}, Words{}, Words{"--shared"}}) {
    const auto refused = dblock(database, run_words("k", options, {"true"}));
    INFO(refused.err);
    CHECK(refused.exit == exited(64));
    CHECK(says(refused.err, "--slots 3"));
    if (!options.empty()) CHECK(says(refused.err, options[0]));
    CHECK(ends_with_exit_line(refused.err, 64));
  }
  // Waiting would not be told apart from a typing error otherwise.
  CHECK(run_true(database, "k", {"--slots", "5", "--wait", "60s"}) == exited(64));
  holder.end();
  CHECK(run_true(database, "k", {"--slots", "5"}) == exited(0));
  CHECK(run_true(database) == exited(0));
}

TEST_CASE("of several keys one in another mode is 64 at once, also where a later key is held", "[safety]") {
  const Database database;
  Holder slots(database, "a", {"--slots", "3"});
  Holder other(database, "b", {});
  for (const Words& options : {Words{}, Words{"--wait", "60s"}, Words{"--attempts", "2"}}) {
    Words words = {"--key", "b"};
    words.insert(words.end(), options.begin(), options.end());
    const auto refused = dblock(database, run_words("a", words, {"true"}));
    INFO(refused.err);
    CHECK(refused.exit == exited(64));
    CHECK(says(refused.err, "--slots 3"));
  }
}

TEST_CASE("never more jobs at a time than slots", "[safety]") {
  const Database database;
  const TempDir directory;
  const std::string script = "mkdir " + directory.path() + "/slot$DBLOCK_SLOT && sleep 0.03 && rmdir " +
                             directory.path() + "/slot$DBLOCK_SLOT && [ $DBLOCK_SLOT -le 4 ]";
  std::vector<Process> jobs;
  for (int i = 0; i < 24; ++i) {
    jobs.emplace_back(dblock_spawn(database, run_words("k", {"--slots", "4", "--wait", "120s"}, sh(script))));
  }
  check_all_succeed(jobs, 120s * slowness());
  CHECK(listed(database).empty());
}

TEST_CASE("a run under several keys has all of them or none, and one token",
          "[safety][other-servers][asan-local]") {
  const Database database;
  const auto told =
      dblock(database, {"run", "-k", "b", "-k", "a", "-k", "b", "--", "/bin/sh", "-c",
                        "printf '%s|%s|%s' \"$DBLOCK_KEY\" \"$DBLOCK_TOKEN\" \"$DBLOCK_OWNER\""});
  REQUIRE(told.exit == exited(0));
  CHECK(told.out.starts_with("a\nb|"));
  const auto said = lines(told.out);
  REQUIRE(said.size() == 4);
  CHECK(said[1].substr(2) == said[2].substr(0, said[2].find('|')));
  Holder holder(database, "b", {});
  const auto refused = dblock(database, {"run", "-k", "a", "-k", "b", "-k", "c", "--", "true"});
  CHECK(refused.exit == exited(75));
  CHECK(says(refused.err, "lock \"b\" is held"));
  CHECK_FALSE(database.has_holder("a"));
  CHECK_FALSE(database.has_holder("c"));
  holder.end();
  Holder both(database, "a", {"-k", "b"});
  CHECK(database.column("a", "lock_value") == database.column("b", "lock_value"));
  CHECK(database.column("a", "token") == database.column("b", "token"));
  CHECK(run_true(database, "a") == exited(75));
  CHECK(run_true(database, "b") == exited(75));
  both.end();
  CHECK_FALSE(database.has_holder("a"));
  CHECK_FALSE(database.has_holder("b"));
}

TEST_CASE("while one of several keys is waited for, nothing is held, and each has the request in its line") {
  const Database database;
  Holder holder(database, "b", {});
  Process waiter = waiting_run(database, {"-k", "b", "--wait", "60s"}, {"true"}, "a");
  CHECK(database.line("a") == database.line("b"));
  CHECK(database.line("a").size() == 1);
  CHECK_FALSE(database.has_holder("a"));
  // Nobody takes it while it is waited for, and after three seconds it goes to whoever asks.
  check_ended(dblock(database, run_words("a", {}, {"true"})), 75,
              {"others wait for lock \"a\" and come first"});
  CHECK(wait_until([&] { return run_true(database, "a") == exited(0); }));
  CHECK(waiter.running());
  holder.end();
  CHECK(waiter.wait() == exited(0));
  CHECK(database.line("a").empty());
  CHECK(database.line("b").empty());
}

TEST_CASE("runs that name their keys in opposite order never block each other", "[safety][other-servers]") {
  const Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  std::vector<Process> racers;
  for (int i = 0; i < 12; ++i) {
    const Words words{"run",  "-k", i % 2 == 0 ? "a" : "b", "-k", i % 2 == 0 ? "b" : "a", "--wait",
                      "120s", "--"};
    // The job under test knows one token.
    racers.emplace_back(
        dblock_spawn(database, with(words, sh("DBLOCK_TOKEN=$(echo \"$DBLOCK_TOKEN\" | head -n 1) exec " +
                                              job_binary() + " interval " + log + " 5"))));
  }
  check_all_succeed(racers, 120s * slowness());
  const auto intervals = read_intervals(log);
  CHECK(intervals.size() == 12);
  CHECK(exclusion_violation(intervals).empty());
}

TEST_CASE("a lease that is lost on one of several keys stops the job", "[safety]") {
  const Database database;
  Holder holder(database, "a", {"-k", "b", "--heartbeat", "200ms", "--kill-grace", "500ms"});
  const auto token = database.column("b", "token");
  REQUIRE(dblock(database, {"release", "--key", "b", "--force", "--token", token}).exit == exited(0));
  CHECK(holder.wait(30s * slowness()) == exited(76));
  for (const auto* const key : {"a", "b"}) CHECK(soon_free(database, key));
}

TEST_CASE("a reader's and a slot's lease are renewed, and end with their holder even by kill -9") {
  for (const Words& sharing : {Words{"--shared"}, Words{"--slots", "2"}}) {
    const Words options = with(sharing, {"--heartbeat", "200ms", "--kill-grace", "200ms"});
    const Database database;
    Holder holder(database, "k", options);
    const auto first = listed(database).at(0).at("renewed_at");
    CHECK(wait_until([&] { return listed(database).at(0).at("renewed_at") != first; }));
    holder.signal(SIGKILL);
    CHECK(wait_until([&] { return listed(database).empty(); }));
    CHECK(run_true(database) == exited(0));
  }
}

TEST_CASE("scripts take, renew and give back readers' leases and slots",
          "[safety][other-servers][asan-server]") {
  const Database database;
  for (const Words& sharing : {Words{"--shared"}, Words{"--slots", "2"}}) {
    const Words terms = with({"--ttl", "60s"}, sharing);
    const std::string owner = take(database, "k", terms);
    const std::string other = take(database, "k", terms);
    CHECK(listed(database).size() == 2);
    CHECK(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(0));
    CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(0));
    CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(76));
    CHECK(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(76));
    CHECK(listed(database).size() == 1);
    CHECK(dblock(database, {"release", "--key", "k", "--owner", other}).exit == exited(0));
    CHECK(listed(database).empty());
  }
  const auto shell =
      dblock(database, {"acquire", "--key", "k", "--ttl", "60s", "--slots", "2", "--format", "shell"});
  CHECK(says(shell.out, " DBLOCK_SLOT=1"));
}

TEST_CASE("another kind of sharing waits until the last holder's margin is over", "[safety]") {
  for (const Words& held : {Words{"--slots", "2"}, Words{"--shared"}}) {
    const Database database;
    const auto before = std::chrono::steady_clock::now();
    take(database, "k", with({"--ttl", "2s", "--margin", "2s"}, held));
    const auto state = [&] { return inspected(database, {"--all"}).at("locks").at(0).at("state"); };
    REQUIRE(wait_until([&] { return state() == "expired"; }));
    const Words other = held[0] == "--shared" ? Words{"--slots", "2"} : Words{"--shared"};
    const auto granted = [&](const Words& options) { return run_true(database, "k", options) == exited(0); };
    // Asked again and again, so that the first grant tells when the margin is over.
    CHECK(wait_until([&] { return granted({"--slots", "3"}) || granted(other); }));
    CHECK(std::chrono::steady_clock::now() - before >= 4s);
    CHECK(granted(other));
  }
}

TEST_CASE("a forced release waits for the holder of its token, whoever else holds") {
  const Database database;
  const auto acquire = [&](const std::string& ttl) {
    const Words words{"--json", "acquire", "--key", "k", "--slots", "2", "--margin", "0", "--ttl", ttl};
    return json::parse(dblock(database, words).out).at("token").get<std::uint64_t>();
  };
  acquire("60s");
  const auto begun = std::chrono::steady_clock::now();
  const auto token = std::to_string(acquire("2s"));
  REQUIRE(dblock(database, {"release", "--key", "k", "--force", "--token", token, "--wait", "60s"}).exit ==
          exited(0));
  CHECK(std::chrono::steady_clock::now() - begun >= 2s);
}

TEST_CASE("before a lease is broken all holders are listed with their tokens") {
  const Database database;
  Holder first(database, "k", {"--slots", "2"});
  Holder second(database, "k", {"--slots", "2"});
  const auto shown = dblock(database, {"release", "--key", "k", "--force"});
  INFO(shown.out << shown.err);
  check_ended(shown, 75);
  for (const auto* const holder : {&first, &second}) {
    CHECK(says(shown.out, " in slot " + holder->told("DBLOCK_SLOT") + " of 2\n"));
    CHECK(says(shown.out, "--force --token " + holder->told("DBLOCK_TOKEN") + "\n"));
  }
  first.end();
  second.end();
}

TEST_CASE("who waits is told of every kind of lock", "[other-servers]") {
  const Database database;
  take(database, "acquired", {"--ttl", "10m"});
  Holder reader(database, "read", {"--shared"});
  Holder in_slot(database, "slots", {"--slots", "2"});
  Holder in_other_slot(database, "slots", {"--slots", "2"});
  Holder of_two(database, "one", {"--key", "two"});
  Holder alone(database, "run", {});
  REQUIRE(run_true(database, "cooling", {"--min-hold", "1h"}) == exited(0));
  std::vector<Process> waiters;
  for (const Words& options : {Words{"acquired"}, Words{"read"}, Words{"slots", "--slots", "2"}, Words{"two"},
                               Words{"cooling"}, Words{"run"}}) {
    const Words more = with({options.begin() + 1, options.end()}, {"--wait", "10m"});
    waiters.push_back(waiting_run(database, more, {"true"}, options[0]));
  }
  const auto locks = inspected(database, {"--all"}).at("locks");
  REQUIRE(locks.size() == 8);  // a row for each holder of a slot
  for (const auto& lock : locks) {
    INFO(lock.dump());
    CHECK(lock.at("waiters").size() == (lock.at("key") == "one" ? 0U : 1U));
  }
  const std::string metrics = dblock(database, {"inspect", "--all", "--format", "prometheus"}).out;
  CHECK(count_of(metrics, "\ndblock_waiters{") == 7);
  CHECK(says(metrics, "\ndblock_waiters{key=\"slots\"} 1\n"));
  CHECK(says(metrics, "\ndblock_waiters{key=\"one\"} 0\n"));
  for (auto& waiter : waiters) waiter.signal(SIGTERM);
  for (auto& waiter : waiters) CHECK(waiter.wait() == killed_by(SIGTERM));
  for (auto* const holder : {&reader, &in_slot, &in_other_slot, &of_two, &alone}) holder->end();
}

TEST_CASE("of successes side by side the one that was granted last counts") {
  const Database database;
  Holder first(database, "k", {"--slots", "2"});
  const auto last = [&] { return inspected(database, {"--all"}).at("locks").at(0).at("last_success"); };
  CHECK(run_true(database, "k", {"--slots", "2"}) == exited(0));
  const auto of_second = last();
  REQUIRE_FALSE(of_second.is_null());
  first.end();
  CHECK(last() == of_second);
}

TEST_CASE("a cancelled writer lets readers in at once", "[other-servers]") {
  const Database database;
  Holder reader(database, "k", {"--shared"});
  Process writer = waiting_run(database);
  check_ended(dblock(database, run_words("k", {"--shared"}, {"true"})), 75,
              {"others wait for lock \"k\" and come first"});
  Process later = waiting_run(database, {"--shared", "--wait", "60s"});
  writer.signal(SIGTERM);
  CHECK(writer.wait() == killed_by(SIGTERM));
  CHECK(later.wait() == exited(0));
  CHECK(run_true(database, "k", {"--shared"}) == exited(0));
  reader.end();
}

TEST_CASE("a writer that is killed while it waits keeps readers away no longer") {
  const Database database;
  Holder reader(database, "k", {"--shared"});
  Process writer = waiting_run(database);
  CHECK(run_true(database, "k", {"--shared"}) == exited(75));
  writer.signal(SIGKILL);
  CHECK(writer.wait() == killed_by(SIGKILL));
  CHECK(wait_until([&] { return run_true(database, "k", {"--shared"}) == exited(0); }));
  reader.end();
}

TEST_CASE("a writer that gives up leaves readers away who are kept away for another") {
  const Database database;
  Holder reader(database, "k", {"--shared"});
  Process writer = waiting_run(database);
  CHECK(run_true(database, "k", {"--shared"}) == exited(75));
  for (const Words& options :
       {Words{"-k", "other", "--wait", "50ms"}, Words{"--attempts", "2", "--backoff", "10ms"}}) {
    CHECK(run_true(database, "k", options) == exited(75));
    CHECK(run_true(database, "k", {"--shared"}) == exited(75));
  }
  reader.end();
  CHECK(writer.wait() == exited(0));
}

TEST_CASE("a success under one of several keys outweighs who holds another") {
  const Database database;
  REQUIRE(run_true(database, "b") == exited(0));
  Holder holder(database, "a", {});
  const auto skipped =
      dblock(database, run_words("a", {"-k", "b", "--once-per", "1h", "--wait", "60s"}, {"echo", "x"}));
  CHECK(skipped.exit == exited(0));
  CHECK(skipped.out.empty());
  holder.end();
}

TEST_CASE("one holder of several is revoked by its token, the others go on", "[safety]") {
  const Database database;
  Holder first(database, "k", {"--shared", "--heartbeat", "200ms", "--kill-grace", "500ms"});
  Holder second(database, "k", {"--shared"});
  const auto token = first.told("DBLOCK_TOKEN");
  REQUIRE(dblock(database, {"release", "--key", "k", "--force", "--token", token}).exit == exited(0));
  CHECK(first.wait(30s * slowness()) == exited(76));
  CHECK(second.running());
  CHECK(wait_until([&] { return listed(database).size() == 1; }));
  second.end();
}

// A token is the time of its grant by the store's clock, in microseconds.
TEST_CASE("slots that are kept for a time limit how many jobs are let start in any such time") {
  const Database database;
  std::vector<std::unique_ptr<Process>> burst;
  for (int i = 0; i < 7; ++i) {
    burst.push_back(std::make_unique<Process>(dblock_spawn(
        database,
        run_words("k", {"--slots", "2", "--min-hold", "1s", "--wait", "1h"}, sh("echo $DBLOCK_TOKEN")))));
  }
  std::vector<long long> grants;
  for (const auto& run : burst) {
    CHECK(run->wait() == exited(0));
    grants.push_back(std::stoll(run->out()));
  }
  std::ranges::sort(grants);
  for (std::size_t i = 2; i < grants.size(); ++i) CHECK(grants[i] - grants[i - 2] >= 1'000'000);
}

}  // namespace
}  // namespace dblock::test
