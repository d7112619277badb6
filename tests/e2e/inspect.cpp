// inspect: who holds what and who waits, for people and programs.
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using nlohmann::json;

std::vector<std::string> keys_of(const json& document) {
  std::vector<std::string> keys;
  for (const auto& lock : document.at("locks")) keys.push_back(lock.at("key"));
  return keys;
}

TEST_CASE("the table shows held locks with their holder") {
  Database database;
  take(database, "reports", {"--ttl", "60s", "--note", "for the board"});
  REQUIRE(run_true(database, "ended") == exited(0));
  const auto finished = dblock(database, {"inspect"});
  CHECK(finished.exit == exited(0));
  CHECK(says(finished.out, "reports"));
  CHECK(says(finished.out, "for the board"));
  CHECK(says(finished.out, database.column("reports", "token")));
  CHECK(says(finished.out, "@"));
  CHECK_FALSE(says(finished.out, "ended"));
  const auto all = dblock(database, {"inspect", "--all"});
  CHECK(says(all.out, "ended"));
}

TEST_CASE("where nothing is held inspect says so beside its results, and what there is instead",
          "[asan-local]") {
  Database database;
  const auto none = dblock(database, {"-v", "inspect"});
  CHECK(says(none.err, "dblock: no lock is held\n"));
  REQUIRE(run_true(database, "a") == exited(0));
  REQUIRE(run_true(database, "b") == exited(0));
  REQUIRE(run_true(database, "c", {"--min-hold", "1h"}) == exited(0));
  take(database, "d");
  database.age_until_expired("d", 1s);
  REQUIRE(run_true(database, "e", {"--slots", "2", "--min-hold", "1h"}) == exited(0));
  const auto told = dblock(database, {"-v", "inspect"});
  INFO(told.out << told.err);
  CHECK(told.exit == exited(0));
  CHECK(says(told.err, "dblock: no lock is held; --all shows 1 expired, 2 cooling down, 2 free\n"));
  CHECK(count_of(told.out, "\n") == (local_run() ? 2 : 1));  // the header
  CHECK(says(dblock(database, {"-v", "inspect", "--key", "a"}).err, "no lock is held; --all shows 1 free\n"));
  CHECK(json::parse(dblock(database, {"-v", "--json", "inspect"}).out).at("locks").empty());
  CHECK(lines(dblock(database, {"-v", "inspect", "--format", "csv"}).out).size() == 1);
  CHECK(dblock(database, {"inspect"}).err.empty());
  CHECK_FALSE(says(dblock(database, {"-v", "inspect", "--all"}).err, "no lock"));
  take(database, "f");
  CHECK_FALSE(says(dblock(database, {"-v", "inspect"}).err, "no lock"));
}

TEST_CASE("of a thousand locks that nobody holds inspect counts no more") {
  Database database;
  REQUIRE(run_true(database, "k0") == exited(0));
  Words keys;
  for (int i = 1; i < 1001; ++i) keys.push_back("k" + std::to_string(i));
  database.copy_row("k0", keys);
  const auto told = dblock(database, {"-v", "inspect"});
  CHECK(told.exit == exited(0));
  CHECK(says(told.err, "dblock: no lock is held; --all shows 1000 free and more\n"));
}

TEST_CASE("json has the documented fields") {
  Database database;
  take(database, "k", {"--ttl", "60s", "--note", "n"});
  const json document = inspected(database);
  CHECK(document.at("format") == 1);
  CHECK(document.at("server_time").get<std::string>().ends_with("Z"));
  REQUIRE(document.at("locks").size() == 1);
  const json& lock = document.at("locks").at(0);
  INFO(lock.dump(2));
  for (const char* field :
       {"key",        "kind",         "mode",     "slot",        "state",        "owner",   "token",
        "count",      "host",         "pid",      "user",        "command",      "note",    "acquired_at",
        "renewed_at", "expires_at",   "ttl_ms",   "margin_ms",   "remaining_ms", "held_ms", "waiters",
        "last",       "last_success", "failures", "job_ended_at"})
    CHECK(lock.contains(field));
  CHECK(lock.at("kind") == "acquire");
  CHECK(lock.at("mode") == "exclusive");
  CHECK(lock.at("state") == "held");
  CHECK(lock.at("owner") == database.column("k", "lock_value"));
  CHECK(lock.at("ttl_ms") == 60'000);
  CHECK(lock.at("remaining_ms").get<long>() <= 60'000);
  CHECK(lock.at("remaining_ms").get<long>() > 30'000);
  CHECK(lock.at("last").is_null());
  // RFC 3339, UTC, microseconds: 2026-11-21T12:41:03.000001Z
  const std::string acquired = lock.at("acquired_at");
  CHECK(acquired.size() == 27);
  CHECK(acquired[10] == 'T');
  CHECK(acquired[19] == '.');
}

TEST_CASE("the last run and the last success are told after the lock is free") {
  const Database database;
  REQUIRE(run_true(database) == exited(0));
  REQUIRE(dblock(database, run_words("k", {}, sh("exit 7"))).exit == exited(7));
  const json lock = inspected(database, {"--all"}).at("locks").at(0);
  CHECK(lock.at("state") == "free");
  CHECK(lock.at("last").at("exit_code") == 7);
  CHECK(lock.at("last").at("outcome") == "failed");
  CHECK_FALSE(lock.at("last_success").at("released_at").is_null());
  CHECK(lock.at("last_success").at("released_at") < lock.at("last").at("released_at"));
}

TEST_CASE("others see that a holder's command has ended and that its run waits for what it left running",
          "[other-servers]") {
  const Database database;
  const TempDir directory;
  Process run(
      dblock_spawn(database, run_words("k", {"-v", "--ttl", "1h"},
                                       sh("sleep 600 & " + print_into(directory.file("left"), "echo $!")))));
  CHECK(
      soon_says(run, "the job has ended; the lock is kept until what the job left running has ended, too: "));
  const auto ended_at = [&] { return inspected(database).at("locks").at(0).at("job_ended_at"); };
  CHECK(wait_until([&] { return !ended_at().is_null(); }));
  CHECK(says(dblock(database, {"inspect"}).out, "s ago, waiting for leftovers)"));
  check_ended(dblock(database, run_words("k", {"-n"}, {"true"})), 75,
              {"; its command ended ", "s ago, and it waits for the leftovers; its lease runs out in "});
  CHECK(says(dblock(database, {"inspect", "--format", "prometheus"}).out,
             "\ndblock_leftovers_seconds{key=\"k\"} "));
  ::kill(pid_in(directory.file("left")), SIGTERM);
  CHECK(run.wait() == exited(0));
  const LiveRun next(database);
  CHECK(ended_at().is_null());
}

TEST_CASE("key and prefix select by bytes", "[other-servers]") {
  const Database database;
  for (const char* key : {"etl/a", "etl/b", "etl_c", "ETL/d", "etl%"}) take(database, key);
  CHECK(keys_of(inspected(database, {"--prefix", "etl/"})) == Words{"etl/a", "etl/b"});
  CHECK(keys_of(inspected(database, {"--prefix", "etl%"})) == Words{"etl%"});
  CHECK(keys_of(inspected(database, {"--prefix", "etl_"})) == Words{"etl_c"});
  CHECK(keys_of(inspected(database, {"--key", "etl/b", "--key", "ETL/d"})) == Words{"ETL/d", "etl/b"});
  CHECK(keys_of(inspected(database)).size() == 5);
}

TEST_CASE("an expired lease is shown as such with all") {
  Database database;
  take(database);
  database.age_until_expired("k", 1h);
  CHECK(keys_of(inspected(database)).empty());
  CHECK(inspected(database, {"--all"}).at("locks").at(0).at("state") == "expired");
}

TEST_CASE("the waiters of a lock are told in the order of their places, with who they are and since when",
          "[other-servers][asan-server]") {
  const Database database;
  LiveRun holder(database);
  const Process first = waiting_run(database);
  const Process second = waiting_run(database);
  const auto lock = inspected(database).at("locks").at(0);
  INFO(lock.dump(2));
  const auto& waiters = lock.at("waiters");
  REQUIRE(waiters.size() == 2);
  CHECK(waiters.at(0).at("pid") == first.pid());
  CHECK(waiters.at(1).at("pid") == second.pid());
  CHECK(waiters.at(0).at("since") < waiters.at(1).at("since"));
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& waiter = waiters.at(i);
    CHECK(waiter.size() == 5);
    CHECK(waiter.at("place") == i + 1);
    CHECK(waiter.at("host") == lock.at("host"));  // all are of this host and user
    CHECK(waiter.at("user") == lock.at("user"));
    CHECK(waiter.at("since") > lock.at("acquired_at"));
    CHECK(waiter.at("since").get<std::string>().size() == 27);  // as acquired_at
  }
  CHECK(says(dblock(database, {"inspect", "--format", "prometheus"}).out, "\ndblock_waiters{key=\"k\"} 2\n"));
}

TEST_CASE("an account that may only read is told who waits, and so is a SQL prompt",
          "[server][other-servers]") {
  ServerDatabase database;
  LiveRun holder(database);
  const Process first = waiting_run(database);
  const Process second = waiting_run(database);
  const std::string user = database.account("", "SELECT");
  const auto listing = json::parse(dblock_at(database.url(user), {"inspect", "--json"}).out);
  CHECK(listing.at("locks").at(0).at("waiters") == inspected(database).at("locks").at(0).at("waiters"));
  CHECK(listing.at("locks").at(0).at("waiters").size() == 2);
  CHECK(Connection(database.server(), user, database.name()).value("SELECT waiters FROM dblock_now") == "2");
}

TEST_CASE("hostile text of a waiter is escaped", "[server]") {
  ServerDatabase database;
  LiveRun holder(database);
  const Process waiter = waiting_run(database);
  database.sql(
      "UPDATE dblock_waiter SET waiter_host = CONCAT(x'1b', ']0;owned', x'07'), waiter_user = x'e280ae'");
  const auto told = dblock(database, {"inspect", "--json"});
  CHECK(told.exit == exited(0));
  CHECK_FALSE(says(told.out, "\x1b"));
  CHECK(json::parse(told.out).at("locks").at(0).at("waiters").at(0).at("host") == "\x1b]0;owned\x07");
  CHECK_FALSE(says(dblock(database, {"inspect"}).out, "\x1b"));
}

TEST_CASE("exit-code says whether an exclusive acquire would be refused") {
  const Database database;
  take(database, "held");
  CHECK(dblock(database, {"inspect", "--key", "held", "--exit-code"}).exit == exited(75));
  CHECK(dblock(database, {"inspect", "--key", "free", "--exit-code"}).exit == exited(0));
  CHECK(dblock(database, {"inspect", "--key", "free", "--key", "held", "--exit-code"}).exit == exited(75));
}

TEST_CASE("a lease whose row does not tell its end is not free, by exit-code, wait and release",
          "[server][other-servers]") {
  ServerDatabase database;
  take(database);
  database.sql("ALTER TABLE dblock_lock DROP CONSTRAINT dblock_lock_free");
  database.sql("UPDATE dblock_lock SET expire_time = NULL");
  const std::string part = "its row does not tell when its lease ends";
  check_ended(dblock(database, {"inspect", "--key", "k", "--exit-code"}), 75, {part});
  check_ended(dblock(database, {"wait", "--key", "k", "--timeout", "0"}), 75, {part});
  check_ended(dblock(database, {"release", "--key", "k", "--force"}), 75, {part});
  CHECK(run_true(database, "k", {"-n"}) == exited(75));
}

TEST_CASE("inspect changes no row") {
  Database database;
  take(database);
  const std::string before = database.row("k");
  const auto finished = dblock(database, {"inspect", "--all"});
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(database.row("k") == before);
}

TEST_CASE("inspect needs no right to write", "[server][other-servers]") {
  ServerDatabase database;
  take(database);
  const std::string user = database.account("", "SELECT");
  const auto finished = dblock_at(database.url(user), {"inspect", "--all"});
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(says(finished.out, "k"));
}

TEST_CASE("hostile text in a row is escaped wherever it is printed", "[asan-server]") {
  Database database;
  take(database);
  // A terminal title, a colour, a line break, a right-to-left override and an isolate.
  const std::string hostile =
      "\x1b]0;owned\x07\x1b[31mred\r\nfake line\xe2\x80\xaeoverride\xe2\x81\xa6isolate\xc2\x9b"
      "1m\xe2\x80\x8bhidden\xf3\xa0\x81\xa1";
  for (const char* column : {"holder_note", "holder_host", "holder_user", "holder_command", "lock_value"})
    database.set_text("k", column, hostile);
  database.copy_row("k", {hostile});
  std::string printed;
  for (const Words& words :
       {Words{"inspect"}, Words{"inspect", "--all"}, Words{"inspect", "--json"},
        Words{"release", "--key", "k", "--force"},
        Words{"run", "--key", "k", "-v", "--wait", "300ms", "--", "true"},
        Words{"acquire", "--key", "k", "--ttl", "5s"}, Words{"renew", "--key", "k", "--owner", "x"},
        Words{"reap", "--dry-run"}, Words{"--log-format", "json", "run", "--key", "k", "--", "true"}}) {
    const auto finished = dblock(database, words);
    printed += finished.out + finished.err;
    for (const char* raw : {"\x1b", "\x07", "\r", "\xe2\x80\xae", "\xe2\x81\xa6", "\xc2\x9b", "\xe2\x80\x8b",
                            "\xf3\xa0\x81\xa1"}) {
      INFO(words[0] << " " << words.back() << ": " << finished.out << finished.err);
      CHECK_FALSE(says(finished.out, raw));
      CHECK_FALSE(says(finished.err, raw));
    }
    CHECK(count_of(finished.out, "\nfake line") == 0);
  }
  CHECK(says(printed, "owned"));  // escaped, not swallowed
  // JSON keeps the value itself.
  const json document = json::parse(dblock(database, {"inspect", "--json", "--key", "k"}).out);
  CHECK(document.at("locks").at(0).at("note").get<std::string>() == hostile);
}

TEST_CASE("bytes that are no text in a key do not break json", "[other-servers][asan-local]") {
  Database database;
  take(database);
  database.rename_row("k", std::string("\xff\0\xfe", 3));
  const auto finished = dblock(database, {"inspect", "--json"});
  CHECK(finished.exit == exited(0));
  CHECK(json::accept(finished.out));
  CHECK(dblock(database, {"inspect"}).exit == exited(0));
}

TEST_CASE("csv has a line for each holder, whatever the rows hold", "[asan-local]") {
  Database database;
  take(database, "plain", {"--ttl", "60s", "--note", "a,b \"c\""});
  take(database, "slots", {"--ttl", "60s", "--slots", "2"});
  take(database, "slots", {"--ttl", "60s", "--slots", "2"});
  database.set_text("plain", "holder_command", "line\r\nbreak\x1b[31m");
  const auto finished = dblock(database, {"inspect", "--format", "csv"});
  INFO(finished.out << finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(finished.out.starts_with("server_time,key,kind,mode,slot,state,owner,token,"));
  CHECK(lines(finished.out).size() == 1 + 3);
  CHECK(says(finished.out, ",\"a,b \"\"c\"\"\","));
  CHECK(says(finished.out, ",line\\x0d\\x0abreak\\x1b[31m,"));
  CHECK(says(finished.out, "Z,slots,acquire,slot,2,held,"));
}

TEST_CASE("prometheus metrics are about all keys, one series a key", "[asan-server]") {
  Database database;
  take(database, "slots", {"--ttl", "60s", "--slots", "2"});
  take(database, "slots", {"--ttl", "60s", "--slots", "2"});
  REQUIRE(run_true(database, "ended \"so\"") == exited(0));
  REQUIRE(dblock(database, run_words("failed", {}, sh("exit 7"))).exit == exited(7));
  database.copy_row("failed", {"\xff\x1b\n"});
  const auto finished = dblock(database, {"inspect", "--format", "prometheus"});
  INFO(finished.out << finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(says(finished.out, "\ndblock_holders{key=\"slots\"} 2\n"));
  CHECK(count_of(finished.out, "\ndblock_held_seconds{key=\"slots\"} ") == 1);
  CHECK(count_of(finished.out, "\ndblock_expires_in_seconds{key=\"slots\"} ") == 1);
  CHECK(says(finished.out, "\ndblock_last_success_timestamp_seconds{key=\"ended \\\"so\\\"\"} 1"));
  CHECK(says(finished.out, "\ndblock_last_outcome{key=\"failed\",outcome=\"failed\"} 1\n"));
  CHECK(says(finished.out, "\ndblock_last_exit_code{key=\"failed\"} 7\n"));
  CHECK(says(finished.out, "\ndblock_holders{key=\"\\\\xff\\\\x1b\\\\x0a\",escaped=\"true\"} 0\n"));
  CHECK_FALSE(says(finished.out, "\x1b"));
  for (const auto& line : lines(finished.out)) CHECK((line.starts_with("# ") || line.starts_with("dblock_")));
  CHECK(count_of(finished.out, "# TYPE dblock_holders gauge\n") == 1);
}

TEST_CASE("when the store cannot be read no format writes a part of its answer") {
  for (const char* format : {"table", "json", "csv", "prometheus", "html"}) {
    for (const char* url : {"mysql://app@127.0.0.1:1/t", "sqlite:/dev/null/locks.db"}) {
      const auto finished = dblock_bare({"--db", url, "inspect", "--format", format});
      INFO(finished.err);
      CHECK(finished.exit != exited(0));
      CHECK(ends_with_exit_line(finished.err, finished.exit.number));
      CHECK(finished.out.empty());
    }
  }
}

}  // namespace
}  // namespace dblock::test
