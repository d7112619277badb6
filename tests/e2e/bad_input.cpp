// Bad input gets a clear message and 64, before any store is asked; bad rows crash nothing.

#include <limits>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// Configured, but there is nothing: 69 or 78 would show that somebody tried.
const Words k_nowhere{local_run() ? "DBLOCK_DB=sqlite:/dev/null/locks.db"
                                  : "DBLOCK_DB=mysql://app@127.0.0.1:1/d"};

std::string usage_error(const Words& words) {
  const auto finished = dblock_bare(words, k_nowhere);
  check_ended(finished, 64);
  CHECK(finished.out.empty());
  return finished.err;
}

std::string usage_error_of_run(const Words& options) {
  return usage_error(run_words("k", options, {"true"}));
}

TEST_CASE("bad keys are refused with 64") {
  const std::string longest(255, 'x');
  CHECK(says(usage_error(run_words("", {}, {"true"})), "key"));
  CHECK(says(usage_error(run_words(longest + "x", {}, {"true"})), "255"));
  CHECK(says(usage_error(run_words("two\nlines", {}, {"true"})), "control"));
  CHECK(says(usage_error(run_words("tab\there", {}, {"true"})), "control"));
  CHECK(says(usage_error(run_words("delete\x7f", {}, {"true"})), "control"));
  CHECK(says(usage_error(run_words("c1\xc2\x85", {}, {"true"})), "control"));
  CHECK(says(usage_error(run_words("bad\xff", {}, {"true"})), "UTF-8"));
  CHECK(says(usage_error(run_words("overlong\xc0\xaf", {}, {"true"})), "UTF-8"));
  CHECK(says(usage_error(run_words("surrogate\xed\xa0\x80", {}, {"true"})), "UTF-8"));
  CHECK(says(usage_error(run_words("cut\xe2\x82", {}, {"true"})), "UTF-8"));
  for (const char* verb : {"acquire", "renew", "release", "inspect"}) usage_error({verb, "--key", "a\nb"});
}

TEST_CASE("a key of 255 bytes and keys in any script are fine") {
  Database database;
  for (const std::string& key :
       {std::string(255, 'x'), std::string("ключ 鍵 🔑"), std::string("-dash"), std::string(" ")})
    CHECK(dblock(database, {"run", "--key=" + key, "--", "true"}).exit == exited(0));
  CHECK(database.has_row(std::string(255, 'x')));
  CHECK(database.rows() == 4);
}

TEST_CASE("a message about a key shows its bytes escaped") {
  const std::string err = usage_error(run_words("a\x1b[31mb\nc", {}, {"true"}));
  CHECK_FALSE(says(err, "\x1b"));
}

TEST_CASE("a duration without a unit is told how to write it") {
  CHECK(says(usage_error_of_run({"--wait", "10"}), "10s"));
  CHECK(says(usage_error_of_run({"-w", "10"}), "10s"));
  CHECK(says(usage_error_of_run({"--ttl", "90"}), "90s"));
  CHECK(says(usage_error_of_run({"--max-runtime=5"}), "5s"));
}

TEST_CASE("a bare zero is a duration") {
  const Database database;
  CHECK(run_true(database, "k", {"--wait", "0"}) == exited(0));
  CHECK(run_true(database, "k", {"--margin", "0"}) == exited(0));
}

TEST_CASE("negative overflowing and nonsensical durations are refused") {
  for (const char* value : {"-5s", "-1ms", "99999999999999999999s", "999999999999999999d", "1e9s", "5 s", "s",
                            "5x", "", "1h-30m", "0x10s", "infinity", "1.2.3s", "+-1s"}) {
    INFO(value);
    usage_error_of_run({std::string("--wait=") + value});
    usage_error_of_run({std::string("--ttl=") + value});
  }
  usage_error_of_run({"--ttl", "forever"});
}

TEST_CASE("a ttl out of range is refused") {
  usage_error_of_run({"--ttl", "999ms"});
  usage_error_of_run({"--ttl", "0"});
  usage_error_of_run({"--ttl", "31d"});
  usage_error({"acquire", "--key", "k", "--ttl", "100ms"});
}

TEST_CASE("timings that leave no room for a second renewal are refused with both sides shown") {
  const std::string err = usage_error_of_run({"--ttl", "10s", "--heartbeat", "4s", "--kill-grace", "3s"});
  CHECK(says(err, "heartbeat"));
  CHECK(says(err, "10s"));
  usage_error_of_run({"--ttl", "10s", "--heartbeat", "5s"});
  usage_error_of_run({"--ttl", "10s", "--heartbeat", "0"});
  usage_error_of_run({"--ttl", "10s", "--kill-grace", "10s"});
  usage_error_of_run({"--ttl", "10s", "--margin", "11s"});
}

TEST_CASE("unknown options are refused with a suggestion", "[asan-local]") {
  CHECK(says(usage_error_of_run({"--waitt", "5s"}), "--wait"));
  CHECK(says(usage_error_of_run({"--hartbeat", "5s"}), "--heartbeat"));
  usage_error_of_run({"--frobnicate"});
  usage_error_of_run({"-Z"});
  usage_error({"--nonsense", "run", "--key", "k", "true"});
}

TEST_CASE("kinds of sharing that contradict each other are refused") {
  usage_error_of_run({"--slots", "0"});
  usage_error_of_run({"--slots", "-1"});
  CHECK(says(usage_error_of_run({"--slots", "2", "--shared"}), "--shared"));
  CHECK(says(usage_error_of_run({"--shared", "--exclusive"}), "choose one"));
  usage_error({"acquire", "--key", "k", "--ttl", "5s", "--slots", "2", "--shared"});
}

TEST_CASE("unknown subcommands are refused with a suggestion") {
  CHECK(says(usage_error({"runn", "--key", "k", "true"}), "run"));
  CHECK(says(usage_error({"aquire", "--key", "k"}), "acquire"));
  usage_error({"frobnicate"});
  usage_error({});
}

TEST_CASE("missing commands keys and values are refused") {
  CHECK(says(usage_error({"run", "--key", "k"}), "command"));
  CHECK(says(usage_error({"run", "--key", "k", "--"}), "command"));
  CHECK(says(usage_error({"run", "--", "true"}), "--key"));
  usage_error({"run", "--key"});
  usage_error({"run", "--key", "k", "-c"});
  usage_error({"acquire", "--ttl", "10s"});
  usage_error({"renew", "--key", "k"});
  usage_error({"release", "--key", "k"});
}

TEST_CASE("a word of another tool's is refused with what it means here") {
  CHECK(says(usage_error_of_run({"--nb"}), "did you mean -n?"));
  CHECK(says(usage_error_of_run({"--no-wait"}), "did you mean -n?"));
  const std::string timeout = usage_error_of_run({"--timeout", "5s"});
  CHECK(says(timeout, "--wait"));
  CHECK(says(timeout, "--max-runtime"));
  CHECK(says(usage_error({"acquire", "--key", "k", "--ttl", "5s", "--no-wait"}), "--wait 0"));
  CHECK(says(usage_error({"status"}), "did you mean inspect?"));
  CHECK(says(usage_error({"list"}), "did you mean inspect?"));
  CHECK(says(usage_error({"unlock", "k"}), "did you mean release?"));
}

TEST_CASE("a run without --key is refused with the line as it was most likely meant", "[asan-local]") {
  const auto advice = [](const Words& words) {
    const std::string err = usage_error(words);
    const auto at = err.find("; write: ");
    return at == std::string::npos ? err : err.substr(at + 9, err.size() - at - 10);
  };
  CHECK(advice({"run", "nightly-etl", "./job"}) == "dblock run --key nightly-etl -- ./job");
  CHECK(advice({"run", "-w", "5s", "nightly etl", "--", "./job", "a b"}) ==
        "dblock run -w 5s --key 'nightly etl' -- ./job ...");
  CHECK(advice({"-q", "run", "nightly-etl", "-c", "date >f"}) == "dblock -q run --key nightly-etl -c ...");
  CHECK(advice({"run", "--", "sleep", "5"}) == "dblock run --key KEY -- sleep ...");
  CHECK(advice({"run", "./job", "x"}) == "dblock run --key KEY -- ./job ...");
  CHECK(advice({"run"}) == "dblock run --key KEY -- COMMAND [ARG...]");
  CHECK_FALSE(says(advice({"run", "--db", "mysql://u:secret@h/d", "k", "./job"}), "secret"));
}

TEST_CASE("an option is not taken for the name of a lock, unless an equals sign says so") {
  const Database database;
  for (const Words& words : {Words{"run", "-k", "-n", "true"}, Words{"run", "--key", "--ttl", "true"},
                             Words{"inspect", "--prefix", "--all"}, Words{"inspect", "-qk", "--json"},
                             Words{"run", "-k", "k", "--status-file", "-q", "true"}}) {
    const auto finished = dblock(database, words);
    INFO(finished.err);
    CHECK(finished.exit == exited(64));
    CHECK(says(finished.err, "looks like an option; should it be the value, write --"));
  }
  CHECK(database.rows() == 0);
  CHECK(dblock(database, {"run", "--key=-n", "--", "printenv", "DBLOCK_KEY"}).out == "-n\n");
  CHECK(dblock(database, {"run", "-k-n", "--", "printenv", "DBLOCK_KEY"}).out == "-n\n");
}

TEST_CASE("a key that is given without --key is told how to be given") {
  for (const char* subcommand : {"acquire", "release", "renew", "inspect", "history"})
    CHECK(says(usage_error({subcommand, "nightly"}), "write --key nightly"));
  CHECK(says(usage_error({"reap", "nightly"}), "only run takes a command"));
}

TEST_CASE("acquire without a ttl names what is missing") {
  CHECK(says(usage_error({"acquire", "--key", "k"}), "--ttl"));
}

TEST_CASE("a command and -c together are refused") {
  usage_error({"run", "--key", "k", "-c", "true", "--", "true"});
}

TEST_CASE("bad numbers names and signals are refused") {
  usage_error_of_run({"--conflict-exit-code", "256"});
  usage_error_of_run({"--conflict-exit-code", "-1"});
  usage_error_of_run({"-E", "many"});
  usage_error_of_run({"--signal", "NOSUCH"});
  usage_error_of_run({"--leftovers", "maybe"});
  usage_error({"acquire", "--key", "k", "--ttl", "10s", "--format", "cobol"});
  usage_error({"release", "--key", "k", "--force", "--token", "abc"});
  usage_error({"reap", "--forget-after", "1h"});
  usage_error({"inspect", "--format", "cobol"});
}

TEST_CASE("everything after the first word that is no option belongs to the job") {
  const Database database;
  const auto finished =
      dblock(database, {"run", "--key", "k", "printf", "%s|", "--key", "-c", "--", "--ttl=1"});
  CHECK(finished.exit == exited(0));
  CHECK(finished.out == "--key|-c|--|--ttl=1|");
}

TEST_CASE("a bad value in the environment names its variable") {
  const auto finished = dblock_bare(run_words("k", {}, {"true"}), {k_nowhere[0], "DBLOCK_WAIT=10"});
  CHECK(finished.exit == exited(64));
  CHECK(says(finished.err, "DBLOCK_WAIT"));
}

TEST_CASE("a bad url is a configuration error that does not show its password", "[asan-local]") {
  for (const char* url :
       {"postgres://app:geheim@h/d", "mysql://app:geheim@h:99999/d", "mysql://app:geheim@h/d?nonsense=1",
        "mysql://app:geheim@h/d?tls=maybe", "mysql://app:geheim@h/", "mysql://app:geh%zzeim@h/d"}) {
    const auto finished = dblock_at(url, run_words("k", {}, {"true"}));
    INFO(url << "\n" << finished.err);
    CHECK(finished.exit == exited(78));
    CHECK_FALSE(says(finished.err, "geh"));
  }
}

TEST_CASE("a url as applications write it is answered with what to write for dblock") {
  const std::string good = "mysql://jobs:geheim@h/d";
  for (const auto& [url, answer] : {std::pair{"\"" + good + "\"", "without quotes"},
                                    {"mysql2://jobs:geheim@h/d", "\"mysql2\" is not supported; use mysql://"},
                                    {good + "?sslMode=VERIFY_CA", "\"sslMode\"; write tls=verify-ca"},
                                    {good + "?unix_socket=/x", "\"unix_socket\"; write socket=PATH"},
                                    {good + "?serverVersion=8.0", "\"serverVersion\"; leave it out"}}) {
    const auto finished = dblock_at(url, run_words("k", {}, {"true"}));
    check_ended(finished, 78, {answer});
    CHECK_FALSE(says(finished.err, "geheim"));
  }
}

TEST_CASE("help and version go to stdout and exit 0") {
  for (const Words& words :
       {Words{"--help"}, Words{"-h"}, Words{"run", "--help"}, Words{"--version"}, Words{"-V"}}) {
    const auto finished = dblock_bare(words);
    CHECK(finished.exit == exited(0));
    CHECK_FALSE(finished.out.empty());
    CHECK(finished.err.empty());
  }
}

TEST_CASE("a row edited to the ends of what a number can be crashes no subcommand",
          "[other-servers][asan-server]") {
  const auto column = GENERATE(as<std::string>{}, "ttl_us", "margin_us", "heartbeat_us");
  const auto value =
      GENERATE(std::numeric_limits<long long>::min(), std::numeric_limits<long long>::max(), -1LL);
  CAPTURE(column, value);
  Database database;
  take(database);
  database.set_number("k", column, value);
  for (const Words& words :
       {run_words("k", {}, {"true"}), run_words("k", {"--wait", "100ms"}, {"true"}), Words{"inspect"},
        Words{"inspect", "--json"}, Words{"inspect", "--format", "prometheus"},
        Words{"acquire", "--key", "k", "--ttl", "5s"}, Words{"release", "--key", "k", "--force"},
        Words{"reap", "--dry-run"}, Words{"doctor"}}) {
    const auto ended = dblock(database, words);
    INFO(words[0] << ": " << ended.exit << ended.err);
    CHECK_FALSE(ended.exit.signalled);
    CHECK(ended.exit != exited(70));
  }
}

}  // namespace
}  // namespace dblock::test
