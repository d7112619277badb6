// Locks that several hold: readers, slots, and several keys at once.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/overlap.hpp"

namespace dblock::test {
namespace {

using nlohmann::json;

// A run whose job is under way until it is told to end.
class Holder {
 public:
  Holder(const Database& database, const std::string& key, const Words& options)
      : process_(
            dblock_spawn(database, run_words(key, options,
                                             sh(told_to_file("DBLOCK_SLOT") + told_to_file("DBLOCK_TOKEN") +
                                                until_told(directory_))))) {
    await_file(process_, directory_.file("up"));
  }
  Process& process() { return process_; }
  // What the job was told as DBLOCK_SLOT or DBLOCK_TOKEN.
  [[nodiscard]] std::string told(const std::string& name) const { return read_file(directory_.file(name)); }
  void end() {
    write_file(directory_.file("go"), "");
    CHECK(process_.wait() == exited(0));
  }

 private:
  [[nodiscard]] std::string told_to_file(const std::string& name) const {
    return "printf %s \"$" + name + "\" >" + directory_.file(name) + "; ";
  }

  TempDir directory_;
  Process process_;
};

Exit once(const Database& database, const std::string& key, Words options = {}) {
  return dblock(database, run_words(key, options, {"true"})).exit;
}

json inspected(const Database& database) {
  return json::parse(dblock(database, {"--json", "inspect"}).out).at("locks");
}

TEST_CASE("readers run side by side and keep writers out, and a writer keeps readers out") {
  const Database database;
  Holder first(database, "k", {"--shared"});
  Holder second(database, "k", {"-s"});
  const auto refused = dblock(database, run_words("k", {}, {"true"}));
  CHECK(refused.exit == exited(75));
  CHECK(says(refused.err, "as a reader"));
  CHECK(once(database, "k", {"--shared"}) == exited(0));
  const auto locks = inspected(database);
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
  CHECK(once(database, "k") == exited(75));
  second.end();
  CHECK(inspected(database).empty());
  CHECK(dblock(database, {"inspect", "--key", "k", "--exit-code"}).exit == exited(0));
  Holder writer(database, "k", {});
  CHECK(once(database, "k", {"--shared"}) == exited(75));
  CHECK(inspected(database).at(0).at("mode") == "exclusive");
  writer.end();
  CHECK(once(database, "k", {"--shared"}) == exited(0));
}

TEST_CASE("a waiting writer turns new readers away and runs when the old ones are gone") {
  const Database database;
  Holder reader(database, "k", {"--shared"});
  Process writer(dblock_spawn(database, run_words("k", {"-v", "--wait", "60s"}, {"true"})));
  REQUIRE(wait_until([&] { return says(writer.err(), "waiting: "); }));
  REQUIRE(wait_until([&] { return once(database, "k", {"--shared"}) == exited(75); }));
  CHECK(writer.running());
  reader.end();
  CHECK(writer.wait() == exited(0));
  CHECK(once(database, "k", {"--shared"}) == exited(0));
}

TEST_CASE("a waiting reader runs when the writer is gone") {
  const Database database;
  Holder writer(database, "k", {});
  Process reader(dblock_spawn(database, run_words("k", {"-v", "-s", "--wait", "60s"}, {"true"})));
  REQUIRE(wait_until([&] { return says(reader.err(), "waiting: "); }));
  writer.end();
  CHECK(reader.wait() == exited(0));
}

TEST_CASE("slots are given out from the first on, each once, and no more than there are") {
  const Database database;
  std::vector<std::unique_ptr<Holder>> holders;
  for (int i = 0; i < 3; ++i)
    holders.push_back(std::make_unique<Holder>(database, "k", Words{"--slots", "3"}));
  for (std::size_t i = 0; i < 3; ++i) CHECK(holders[i]->told("DBLOCK_SLOT") == std::to_string(i + 1));
  const auto refused = dblock(database, run_words("k", {"--slots", "3"}, {"true"}));
  CHECK(refused.exit == exited(75));
  CHECK(says(refused.err, "of 3"));
  const auto locks = inspected(database);
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
  CHECK(once(database, "k") == exited(0));
}

TEST_CASE("another number of slots is refused with both named while the lock is held, and not after") {
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
  CHECK(once(database, "k", {"--slots", "5", "--wait", "60s"}) == exited(64));
  holder.end();
  CHECK(once(database, "k", {"--slots", "5"}) == exited(0));
  CHECK(once(database, "k") == exited(0));
}

TEST_CASE("never more jobs at a time than slots") {
  const Database database;
  const TempDir directory;
  const std::string script = "mkdir " + directory.path() + "/slot$DBLOCK_SLOT && sleep 0.03 && rmdir " +
                             directory.path() + "/slot$DBLOCK_SLOT && [ $DBLOCK_SLOT -le 4 ]";
  std::vector<std::unique_ptr<Process>> jobs;
  for (int i = 0; i < 24; ++i) {
    jobs.push_back(std::make_unique<Process>(
        dblock_spawn(database, run_words("k", {"--slots", "4", "--wait", "120s"}, sh(script)))));
  }
  for (const auto& job : jobs) {
    const Exit exit = job->wait(120s * slowness());
    INFO(job->err());
    CHECK(exit == exited(0));
  }
  CHECK(inspected(database).empty());
}

TEST_CASE("a run under several keys has all of them or none, and one token") {
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
  CHECK(once(database, "a") == exited(75));
  CHECK(once(database, "b") == exited(75));
  both.end();
  CHECK_FALSE(database.has_holder("a"));
  CHECK_FALSE(database.has_holder("b"));
}

TEST_CASE("while one of several keys is waited for, nothing is held") {
  const Database database;
  Holder holder(database, "b", {});
  Process waiter(dblock_spawn(database, {"run", "-k", "a", "-k", "b", "-v", "--wait", "60s", "--", "true"}));
  REQUIRE(wait_until([&] { return says(waiter.err(), "waiting: "); }));
  CHECK(once(database, "a") == exited(0));
  holder.end();
  CHECK(waiter.wait() == exited(0));
}

TEST_CASE("runs that name their keys in opposite order never block each other") {
  const Database database;
  const TempDir directory;
  const std::string log = directory.file("log");
  std::vector<std::unique_ptr<Process>> racers;
  for (int i = 0; i < 12; ++i) {
    Words words{"run", "-k", i % 2 == 0 ? "a" : "b", "-k", i % 2 == 0 ? "b" : "a", "--wait", "120s", "--"};
    // The job under test knows one token.
    for (const auto& word : sh("DBLOCK_TOKEN=$(echo \"$DBLOCK_TOKEN\" | head -n 1) exec " + job_binary() +
                               " interval " + log + " 5"))
      words.push_back(word);
    racers.push_back(std::make_unique<Process>(dblock_spawn(database, words)));
  }
  for (const auto& racer : racers) {
    const Exit exit = racer->wait(120s * slowness());
    INFO(racer->err());
    CHECK(exit == exited(0));
  }
  const auto intervals = read_intervals(log);
  CHECK(intervals.size() == 12);
  CHECK(exclusion_violation(intervals).empty());
}

TEST_CASE("a lease that is lost on one of several keys stops the job") {
  const Database database;
  Holder holder(database, "a", {"-k", "b", "--ttl", "3s", "--heartbeat", "200ms", "--kill-grace", "500ms"});
  const auto token = database.column("b", "token");
  REQUIRE(dblock(database, {"release", "--key", "b", "--force", "--token", token}).exit == exited(0));
  CHECK(holder.process().wait(30s * slowness()) == exited(76));
  CHECK(wait_until([&] { return !database.has_holder("a") && !database.has_holder("b"); }));
}

TEST_CASE("a reader's and a slot's lease are renewed, and end with their holder even by kill -9") {
  for (const Words& sharing : {Words{"--shared"}, Words{"--slots", "2"}}) {
    Words options = sharing;
    for (const auto* const word : {"--ttl", "2s", "--heartbeat", "200ms", "--kill-grace", "200ms"})
      options.emplace_back(word);
    const Database database;
    Holder holder(database, "k", options);
    const auto first = inspected(database).at(0).at("renewed_at");
    CHECK(wait_until([&] { return inspected(database).at(0).at("renewed_at") != first; }));
    holder.process().signal(SIGKILL);
    CHECK(wait_until([&] { return inspected(database).empty(); }));
    CHECK(once(database, "k") == exited(0));
  }
}

TEST_CASE("scripts take, renew and give back readers' leases and slots") {
  const Database database;
  for (const Words& sharing : {Words{"--shared"}, Words{"--slots", "2"}}) {
    Words words{"acquire", "--key", "k", "--ttl", "60s"};
    words.insert(words.end(), sharing.begin(), sharing.end());
    const auto first = dblock(database, words);
    const auto second = dblock(database, words);
    REQUIRE(first.exit == exited(0));
    REQUIRE(second.exit == exited(0));
    const auto owner = lines(first.out).at(0);
    CHECK(inspected(database).size() == 2);
    CHECK(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(0));
    CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(0));
    CHECK(dblock(database, {"release", "--key", "k", "--owner", owner}).exit == exited(76));
    CHECK(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(76));
    CHECK(inspected(database).size() == 1);
    CHECK(dblock(database, {"release", "--key", "k", "--owner", lines(second.out).at(0)}).exit == exited(0));
    CHECK(inspected(database).empty());
  }
  const auto shell =
      dblock(database, {"acquire", "--key", "k", "--ttl", "60s", "--slots", "2", "--format", "shell"});
  CHECK(says(shell.out, " DBLOCK_SLOT=1"));
}

TEST_CASE("another kind of sharing waits until the last holder's margin is over") {
  const Database database;
  for (const Words& held : {Words{"--slots", "2"}, Words{"--shared"}}) {
    const std::string time = std::to_string(slowness()) + "s";
    Words words{"acquire", "--key", "k", "--ttl", time, "--margin", time};
    words.insert(words.end(), held.begin(), held.end());
    REQUIRE(dblock(database, words).exit == exited(0));
    const auto state = [&] {
      return json::parse(dblock(database, {"--json", "inspect", "--all"}).out).at("locks").at(0).at("state");
    };
    REQUIRE(wait_until([&] { return state() == "expired"; }));
    const Words other = held[0] == "--shared" ? Words{"--slots", "2"} : Words{"--shared"};
    CHECK(once(database, "k", other) == exited(75));
    CHECK(once(database, "k", {"--slots", "3"}) == exited(75));
    CHECK(wait_until([&] { return once(database, "k", other) == exited(0); }));
  }
}

TEST_CASE("a forced release waits for the holder of its token, whoever else holds") {
  const Database database;
  const Words words{"acquire", "--key", "k", "--slots", "2", "--margin", "0", "--ttl"};
  const auto acquire = [&](const std::string& ttl) {
    Words all{"--json"};
    all.insert(all.end(), words.begin(), words.end());
    all.push_back(ttl);
    return json::parse(dblock(database, all).out).at("token").get<std::uint64_t>();
  };
  acquire("60s");
  const auto token = std::to_string(acquire("2s"));
  const auto begun = std::chrono::steady_clock::now();
  REQUIRE(dblock(database, {"release", "--key", "k", "--force", "--token", token, "--wait", "60s"}).exit ==
          exited(0));
  CHECK(std::chrono::steady_clock::now() - begun > 1s);
}

TEST_CASE("before a lease is broken all holders are listed with their tokens") {
  const Database database;
  Holder first(database, "k", {"--slots", "2"});
  Holder second(database, "k", {"--slots", "2"});
  const auto shown = dblock(database, {"release", "--key", "k", "--force"});
  INFO(shown.out << shown.err);
  CHECK(shown.exit == exited(75));
  CHECK(ends_with_exit_line(shown.err, 75));
  for (const auto* const holder : {&first, &second}) {
    CHECK(says(shown.out, " in slot " + holder->told("DBLOCK_SLOT") + " of 2\n"));
    CHECK(says(shown.out, "--force --token " + holder->told("DBLOCK_TOKEN") + "\n"));
  }
  first.end();
  second.end();
}

// Where the holder has no turnstile the first waiter owns it, and polls where no process list shows it.
TEST_CASE("who waits is counted where everybody in line is seen, and else is not known", "[server]") {
  const Database database;
  REQUIRE(dblock(database, {"acquire", "--key", "acquired", "--ttl", "10m"}).exit == exited(0));
  Holder reader(database, "read", {"--shared"});
  Holder in_slot(database, "slots", {"--slots", "2"});
  Holder in_other_slot(database, "slots", {"--slots", "2"});
  Holder of_two(database, "one", {"--key", "two"});
  Holder alone(database, "run", {});
  REQUIRE(dblock(database, run_words("cooling", {"--min-hold", "1h"}, {"true"})).exit == exited(0));
  std::vector<std::unique_ptr<Process>> waiters;
  for (const Words& options : {Words{"acquired"}, Words{"read"}, Words{"slots", "--slots", "2"}, Words{"two"},
                               Words{"cooling"}, Words{"run"}}) {
    Words words{options.begin() + 1, options.end()};
    words.insert(words.end(), {"-v", "--wait", "10m"});
    waiters.push_back(
        std::make_unique<Process>(dblock_spawn(database, run_words(options[0], words, {"true"}))));
    REQUIRE(wait_until([&] { return says(waiters.back()->err(), "waiting: "); }));
  }
  const auto all = [&](const Words& more) {
    Words words{"inspect", "--all"};
    words.insert(words.end(), more.begin(), more.end());
    return dblock(database, words).out;
  };
  REQUIRE(wait_until([&] { return says(all({"--json"}), "\"since\""); }));
  const auto document = json::parse(all({"--json"}));
  REQUIRE(document.at("locks").size() == 8);
  for (const auto& lock : document.at("locks")) {
    INFO(lock.dump());
    if (lock.at("key") == "run") {
      CHECK(lock.at("waiters").size() == 1);
    } else {
      CHECK(lock.at("waiters").is_null());
    }
  }
  CHECK(count_of(all({"--format", "prometheus"}), "\ndblock_waiters{") == 1);
  CHECK(says(all({"--format", "prometheus"}), "\ndblock_waiters{key=\"run\"} 1\n"));
  for (auto& waiter : waiters) waiter->signal(SIGTERM);
  for (auto& waiter : waiters) CHECK(waiter->wait() == killed_by(SIGTERM));
  for (auto* const holder : {&reader, &in_slot, &in_other_slot, &of_two, &alone}) holder->end();
}

TEST_CASE("of successes side by side the one that was granted last counts") {
  const Database database;
  Holder first(database, "k", {"--slots", "2", "--once-per", "1h"});
  const auto last = [&] {
    return json::parse(dblock(database, {"--json", "inspect", "--all"}).out)
        .at("locks")
        .at(0)
        .at("last_success");
  };
  CHECK(once(database, "k", {"--slots", "2"}) == exited(0));
  const auto of_second = last();
  REQUIRE_FALSE(of_second.is_null());
  first.end();
  CHECK(last() == of_second);
}

TEST_CASE("a cancelled writer lets readers in at once") {
  const Database database;
  Holder reader(database, "k", {"--shared"});
  Process writer(dblock_spawn(database, run_words("k", {"-v", "--wait", "60s"}, {"true"})));
  REQUIRE(wait_until([&] { return says(writer.err(), "waiting: "); }));
  const auto refused = [&] { return dblock(database, run_words("k", {"--shared"}, {"true"})); };
  REQUIRE(wait_until([&] { return refused().exit == exited(75); }));
  CHECK(says(refused().err, "waited for by a writer"));
  writer.signal(SIGTERM);
  CHECK(writer.wait() == killed_by(SIGTERM));
  CHECK(once(database, "k", {"--shared"}) == exited(0));
  reader.end();
}

TEST_CASE("a writer that gives up leaves readers away who are kept away for another") {
  const Database database;
  Holder reader(database, "k", {"--shared"});
  Process writer(dblock_spawn(database, run_words("k", {"-v", "--wait", "60s"}, {"true"})));
  REQUIRE(wait_until([&] { return says(writer.err(), "waiting: "); }));
  REQUIRE(wait_until([&] { return once(database, "k", {"--shared"}) == exited(75); }));
  for (const Words& options :
       {Words{"-k", "other", "--wait", "50ms"}, Words{"--attempts", "2", "--backoff", "10ms"}}) {
    CHECK(once(database, "k", options) == exited(75));
    CHECK(once(database, "k", {"--shared"}) == exited(75));
  }
  reader.end();
  CHECK(writer.wait() == exited(0));
}

TEST_CASE("a success under one of several keys outweighs who holds another") {
  const Database database;
  REQUIRE(once(database, "b") == exited(0));
  Holder holder(database, "a", {});
  const auto skipped =
      dblock(database, run_words("a", {"-k", "b", "--once-per", "1h", "--wait", "60s"}, {"echo", "x"}));
  CHECK(skipped.exit == exited(0));
  CHECK(skipped.out.empty());
  holder.end();
}

TEST_CASE("one holder of several is revoked by its token, the others go on") {
  const Database database;
  Holder first(database, "k", {"--shared", "--ttl", "3s", "--heartbeat", "200ms", "--kill-grace", "500ms"});
  Holder second(database, "k", {"--shared"});
  const auto token = first.told("DBLOCK_TOKEN");
  REQUIRE(dblock(database, {"release", "--key", "k", "--force", "--token", token}).exit == exited(0));
  CHECK(first.process().wait(30s * slowness()) == exited(76));
  CHECK(second.process().running());
  CHECK(wait_until([&] { return inspected(database).size() == 1; }));
  second.end();
}

}  // namespace
}  // namespace dblock::test
