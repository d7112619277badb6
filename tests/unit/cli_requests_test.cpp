#include <csignal>
#include <map>

#include "cli/options/option_spec.hpp"
#include "cli_fixture.hpp"

namespace dblock::cli {
namespace {

std::string usage_error(const Words& words) {
  const World world;
  const auto error = world.refusal(words);
  CHECK(error.code == Errc::usage);
  return error.message;
}

app::RunRequest run_of(const Words& options) {
  const World world;
  Words words{"run", "-k", "a"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("true");
  return world.request<app::RunRequest>(words);
}

TEST_CASE("history takes keys, an age, an outcome and a limit") {
  const World world;
  const auto plain = world.request<app::HistoryRequest>({"history"});
  CHECK(plain.query.keys.empty());
  CHECK_FALSE(plain.query.since);
  CHECK(plain.query.limit == 100);
  const auto all = world.request<app::HistoryRequest>(
      {"history", "-k", "a", "--key", "b", "--since", "7d", "--limit", "5"});
  CHECK(all.query.keys.size() == 2);
  CHECK(all.query.since == 168h);
  CHECK(all.query.limit == 5);
  CHECK(usage_error({"history", "--limit", "0"}) == "--limit: must be at least 1");
  CHECK(usage_error({"history", "--limit", "1000001"}).starts_with("--limit"));
  CHECK(usage_error({"history", "--since", "7"}).starts_with("--since"));
  CHECK_FALSE(plain.query.prefix);
  CHECK_FALSE(plain.query.outcome);
  const auto some =
      world.request<app::HistoryRequest>({"history", "--prefix", "etl-", "--outcome", "timed_out"});
  CHECK(some.query.prefix == "etl-");
  CHECK(some.query.outcome == lease::RunOutcome::timed_out);
  for (int i = 0; i < 8; ++i) {
    const auto outcome = static_cast<lease::RunOutcome>(i);
    const std::string word(lease::to_string(outcome));
    CHECK(world.request<app::HistoryRequest>({"history", "--outcome", word}).query.outcome == outcome);
  }
  CHECK(usage_error({"history", "--outcome", "good"}).starts_with("--outcome"));
  CHECK(world.request<app::HistoryRequest>({"history", "--format", "html"}).query.limit == 5000);
  CHECK(world.request<app::HistoryRequest>({"history", "--format", "html", "--limit", "7"}).query.limit == 7);
  CHECK(world.request<app::HistoryRequest>({"history", "--format", "csv"}).query.limit == 100);
}

TEST_CASE("migrate is told to keep a history, or not to, and reap how long") {
  const World world;
  CHECK_FALSE(world.request<app::MigrateRequest>({"migrate"}).history);
  CHECK(world.request<app::MigrateRequest>({"migrate", "--history", "on"}).history == true);
  CHECK(world.request<app::MigrateRequest>({"migrate", "--history=off"}).history == false);
  CHECK(world.request<app::MigrateRequest>({"migrate", "--history=on", "--print-grants", "x"}).history ==
        true);
  CHECK(usage_error({"migrate", "--history", "maybe"}).starts_with("--history"));
  CHECK(usage_error({"migrate", "--history", "on", "--status"}).starts_with("migrate"));
  CHECK(usage_error({"migrate", "--history", "on", "--dry-run"}).starts_with("migrate"));
  CHECK(world.request<app::ReapRequest>({"reap"}).forget_history == 90 * 24h);
  CHECK(world.request<app::ReapRequest>({"reap", "--forget-history", "0"}).forget_history == 0s);
}

TEST_CASE("run has the documented defaults") {
  const auto run = run_of({});
  CHECK(run.key.bytes() == "a");
  CHECK(run.timing.ttl == 2min);
  CHECK(run.timing.heartbeat == 15s);
  CHECK(run.timing.kill_grace == 4s);
  CHECK_FALSE(run.stop_grace);  // as kill_grace
  CHECK(run.timing.margin == 3s);
  CHECK(run.wait.limit == 0s);
  CHECK(run.conflict_exit_code == 75);
  CHECK(run.first_signal == SIGTERM);
  CHECK_FALSE(run.max_runtime.has_value());
  CHECK(run.leftovers == process::Leftovers::automatic);
  CHECK(run.warn_after == 3s);
  CHECK_FALSE(run.record_args);
  CHECK_FALSE(run.with_parent);
  CHECK_FALSE(run.status_file.has_value());
  CHECK(run.command == Words{"true"});
  CHECK_FALSE(run.shell_command.has_value());
}

TEST_CASE("hooks come from everywhere, and an empty one is none") {
  World world;
  world.write("system.conf", "on-wait = from file\n[run]\non-conflict = c\non-overdue = o\non-start = s\n")
      .set("DBLOCK_ON_LOST", "page me")
      .set("DBLOCK_ON_END", "tell");
  const Words words{"run", "-k", "a", "true"};
  CHECK(world.request<app::RunRequest>(words).hooks.wait == "from file");
  CHECK(world.request<app::RunRequest>(words).hooks.lost == "page me");
  CHECK(world.request<app::RunRequest>(words).hooks.conflict == "c");
  CHECK(world.request<app::RunRequest>(words).hooks.overdue == "o");
  CHECK(world.request<app::RunRequest>(words).hooks.start == "s");
  CHECK(world.request<app::RunRequest>(words).hooks.end == "tell");
  const Words none{"run", "-k", "a", "--on-wait", "", "--on-lost=", "--on-conflict=typed", "true"};
  CHECK(world.request<app::RunRequest>(none).hooks.wait.empty());
  CHECK(world.request<app::RunRequest>(none).hooks.lost.empty());
  CHECK(world.request<app::RunRequest>(none).hooks.conflict == "typed");
  world.set("DBLOCK_EVENT", "conflict");  // inside a hook
  CHECK(world.request<app::RunRequest>(words).hooks.wait.empty());
  CHECK(world.request<app::RunRequest>(words).hooks.conflict.empty());
  CHECK(world.request<app::RunRequest>(words).hooks.overdue.empty());
  CHECK(world.request<app::RunRequest>(words).hooks.end.empty());
  CHECK(world.request<app::RunRequest>(none).hooks.conflict == "typed");
}

TEST_CASE("on-lost is run's command and lost-signal acquire's signal, and neither is taken for the other") {
  World world;
  const Words acquire{"acquire", "-k", "a", "--while-pid", "1"};
  world.set("DBLOCK_ON_LOST", "page me");
  CHECK(world.request<app::AcquireRequest>(acquire).while_pid->lost_signal == SIGTERM);
  world.set("DBLOCK_LOST_SIGNAL", "USR1");
  CHECK(world.request<app::AcquireRequest>(acquire).while_pid->lost_signal == SIGUSR1);
  CHECK(world.request<app::RunRequest>({"run", "-k", "a", "true"}).hooks.lost == "page me");
  world.set("DBLOCK_LOST_SIGNAL", "page me");
  CHECK_THAT(world.refusal(acquire).message,
             Catch::Contains("DBLOCK_LOST_SIGNAL") && Catch::Contains("is not a signal"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--on-lost", "SIGTERM", "true"}),
             Catch::Contains("for `run` write a command"));
  CHECK_THAT(usage_error({"acquire", "-k", "a", "--while-pid", "1", "--on-lost", "HUP"}),
             Catch::Contains("--lost-signal"));
}

TEST_CASE("run takes every option it documents") {
  const auto run = run_of({"--ttl=1h",
                           "--heartbeat",
                           "10s",
                           "--kill-grace",
                           "1m",
                           "--stop-grace",
                           "2h",
                           "--margin",
                           "0",
                           "-w",
                           "forever",
                           "-E",
                           "0",
                           "--signal",
                           "sigint",
                           "--max-runtime",
                           "90m",
                           "--with-parent",
                           "--leftovers",
                           "kill",
                           "--warn-after",
                           "1s",
                           "--note",
                           "",
                           "--record-args",
                           "--status-file",
                           "out.json"});
  CHECK(run.timing.heartbeat == 10s);
  CHECK(run.timing.kill_grace == 1min);
  CHECK(run.stop_grace == 2h);
  CHECK(run.timing.margin == 0s);
  CHECK_FALSE(run.wait.limit.has_value());
  CHECK(run.conflict_exit_code == 0);
  CHECK(run.first_signal == SIGINT);
  CHECK(run.max_runtime == 90min);
  CHECK(run.with_parent);
  CHECK(run.leftovers == process::Leftovers::kill);
  CHECK(run.record_args);
  CHECK(run.status_file == "out.json");
}

TEST_CASE("run takes how it behaves among others, and a pool") {
  const auto run =
      run_of({"--line", "newest", "--replace", "--replaceable", "--wait", "5m", "--keep-on-failure", "1h"});
  CHECK(run.line == lease::Line::newest);
  CHECK(run.replaces);
  CHECK(run.replaceable);
  CHECK(run.promises.keep_on_failure == 1h);
  World world;
  const auto pool =
      world.request<app::RunRequest>({"run", "--any", "b", "--any", "a", "--any", "b", "--any", "c", "true"});
  CHECK(pool.key.bytes() == "b");
  REQUIRE(pool.any.size() == 2);
  CHECK(pool.any.front().bytes() == "a");
  CHECK(pool.further_keys.empty());
}

TEST_CASE("inherited variables that do not go with a run are left out of it") {
  World world;
  for (const auto* const name : {"DBLOCK_REPLACE", "DBLOCK_REPLACEABLE"}) world.set(name, "1");
  world.set("DBLOCK_LINE", "one");
  const auto once = world.request<app::RunRequest>({"run", "-k", "a", "true"});
  CHECK(once.replaces);
  CHECK(once.replaceable);
  CHECK(once.line == lease::Line::one);
  const auto pool =
      world.request<app::RunRequest>({"run", "--any", "a", "--any", "b", "--wait", "1m", "true"});
  CHECK_FALSE(pool.replaces);
  CHECK(pool.line == lease::Line::fifo);
  World other;
  other.set("DBLOCK_LINE", "one");
  const auto shared = other.request<app::RunRequest>({"run", "-k", "a", "--shared", "true"});
  CHECK(shared.line == lease::Line::fifo);
}

TEST_CASE("one job in a period and several side by side exclude each other, wherever the options come from") {
  CHECK(usage_error({"run", "-k", "a", "--once-per", "1h", "--slots", "2", "true"}) ==
        "run: --once-per lets one job start in a period, and --slots lets several start side by side; leave "
        "one "
        "of them out");
  CHECK_THAT(usage_error({"run", "-k", "a", "-k", "b", "--once-per", "1h", "--shared", "true"}),
             Catch::Contains("--once-per") && Catch::Contains("--shared lets several start"));
  CHECK(run_of({"--once-per", "1h", "--slots", "1"}).promises.once_per);
  CHECK(run_of({"--once-per", "1h", "--exclusive"}).promises.once_per);
  World world;
  world.set("DBLOCK_SLOTS", "2");
  CHECK_THAT(world.refusal({"run", "-k", "a", "--once-per", "1h", "true"}).message,
             Catch::Contains("DBLOCK_SLOTS lets several start"));
  CHECK(
      world.request<app::RunRequest>({"run", "-k", "a", "-x", "--once-per", "1h", "true"}).promises.once_per);
  world.set("DBLOCK_ONCE_PER", "1h");
  CHECK(world.refusal({"run", "-k", "a", "true"}).code == Errc::usage);
  World files;
  files.set_home().write("system.conf", "once-per = 1h\n").write(".config/dblock.conf", "shared = yes\n");
  const auto of_files = files.refusal({"run", "-k", "a", "true"});
  CHECK(of_files.code == Errc::usage);
  CHECK_THAT(of_files.message,
             Catch::Contains("system.conf: once-per lets one job start in a period, and ") &&
                 Catch::Contains("dblock.conf: shared lets several start"));
}

TEST_CASE("one job in a period is not promised for a pool, wherever the options come from") {
  const std::string why =
      " asks for the last success under one key, and does not go with --any; leave one of them out";
  CHECK(usage_error({"run", "--any", "a", "--any", "b", "--once-per", "1h", "true"}) ==
        "run: --once-per" + why);
  World world;
  world.set("DBLOCK_ONCE_PER", "1h");
  CHECK(world.refusal({"run", "--any", "a", "--any", "b", "true"}).message == "run: DBLOCK_ONCE_PER" + why);
}

TEST_CASE("run and acquire take promises and a retry policy, from the environment too") {
  const auto run = run_of({"--min-hold", "5m", "--once-per", "1d", "--attempts", "3", "--backoff", "2s",
                           "--backoff-multiplier", "2"});
  CHECK(run.promises.min_hold == 5min);
  REQUIRE(run.promises.once_per);
  CHECK(run.promises.once_per->period == 24h);
  REQUIRE(run.wait.retry);
  CHECK(run.wait.retry->attempts == 3);
  CHECK(run.wait.retry->first == 2s);
  CHECK(run.wait.retry->growth == 2.0);
  CHECK_FALSE(run.wait.limit);
  const auto plain = run_of({});
  CHECK(plain.promises.min_hold == 0s);
  CHECK_FALSE(plain.promises.once_per);
  CHECK_FALSE(plain.wait.retry);

  World world;
  world.set("DBLOCK_MIN_HOLD", "1m");
  world.set("DBLOCK_ONCE_PER", "1h");
  world.set("DBLOCK_ATTEMPTS", "7");
  world.set("DBLOCK_BACKOFF", "250ms");
  world.set("DBLOCK_BACKOFF_MULTIPLIER", "1");
  const auto from_outside = world.request<app::RunRequest>({"run", "-k", "a", "true"});
  CHECK(from_outside.promises.min_hold == 1min);
  CHECK(from_outside.promises.once_per->period == 1h);
  CHECK(from_outside.wait.retry->attempts == 7);
  CHECK(from_outside.wait.retry->first == 250ms);
  CHECK(from_outside.wait.retry->growth == 1.0);
  const auto acquire = world.request<app::AcquireRequest>({"acquire", "-k", "a", "--ttl", "5s"});
  CHECK(acquire.promises.min_hold == 1min);
  CHECK_FALSE(acquire.promises.once_per);
  CHECK(acquire.wait.retry->attempts == 7);
}

TEST_CASE("a run has no splay unless it is asked for, and one of a day at most") {
  CHECK(run_of({}).splay == 0s);
  CHECK(run_of({"--splay", "10m"}).splay == 10min);
  CHECK(run_of({"--splay", "1d"}).splay == 24h);
  CHECK_THAT(usage_error({"run", "-k", "a", "--splay", "25h", "true"}), Catch::Contains("at most 1d"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--splay", "10", "true"}), Catch::Contains("write 10s"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--splay", "forever", "true"}), Catch::StartsWith("--splay: "));
  World world;
  world.set("DBLOCK_SPLAY", "5m");
  CHECK(world.request<app::RunRequest>({"run", "-k", "a", "true"}).splay == 5min);
}

TEST_CASE("a failed job is not started again unless that is asked for, and the pauses have defaults") {
  CHECK(run_of({}).retry.count == 0);
  const auto three = run_of({"--retry", "3"});
  CHECK(three.retry.count == 3);
  CHECK(three.retry.delay == 1s);
  CHECK(three.retry.max_delay == 10min);
  const auto paused = run_of({"--retry=1", "--retry-delay", "0", "--retry-max-delay", "2s"});
  CHECK(paused.retry.delay == 0s);
  CHECK(paused.retry.max_delay == 2s);
  for (const auto* const option : {"--retry-delay", "--retry-max-delay"})
    CHECK_THAT(usage_error({"run", "-k", "a", option, "2s", "true"}),
               Catch::StartsWith(std::string(option) + ": needs --retry N"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--retry", "1", "--retry-max-delay", "0", "true"}),
             Catch::Contains("more than 0"));
  for (const auto* const value : {"-1", "1.5", "many", "forever", "10000000000"})
    CHECK_THAT(usage_error({"run", "-k", "a", "--retry", value, "true"}), Catch::StartsWith("--retry: "));
  World world;
  world.set("DBLOCK_RETRY_DELAY", "5s");  // without an effect, and no error
  CHECK(world.request<app::RunRequest>({"run", "-k", "a", "true"}).retry.count == 0);
  world.set("DBLOCK_RETRY", "2");
  CHECK(world.request<app::RunRequest>({"run", "-k", "a", "true"}).retry.count == 2);
  CHECK(world.request<app::RunRequest>({"run", "-k", "a", "true"}).retry.delay == 5s);
}

TEST_CASE("counted tries have documented defaults and only a wait that was asked for limits them") {
  const auto counted = run_of({"--attempts", "2"});
  CHECK(counted.wait.retry->first == 1s);
  CHECK(counted.wait.retry->growth == 1.5);
  CHECK_FALSE(counted.wait.limit);
  CHECK(run_of({"--attempts", "2", "--wait", "5s"}).wait.limit == 5s);
  CHECK_FALSE(run_of({"--attempts", "2", "--wait", "forever"}).wait.limit);
  CHECK(run_of({"--attempts", "2", "-n"}).wait.limit == 0s);
  CHECK(run_of({"--attempts", "2", "-w", "0"}).wait.limit == 0s);
}

TEST_CASE("promises and retry policies that make no sense are refused") {
  const auto refused = [](const std::string& option, const std::string& value, const std::string& with = "") {
    Words words{"run", "-k", "a", option, value};
    if (!with.empty()) words.push_back(with);
    words.emplace_back("true");
    const auto message = usage_error(words);
    CHECK_THAT(message, Catch::StartsWith(option + ": "));
    return message;
  };
  for (const auto* const value : {"-1s", "5", "soon", "", "forever"}) {
    refused("--min-hold", value);
    refused("--once-per", value);
    refused("--backoff", value, "--attempts=2");
  }
  for (const auto* const value : {"400d", "30d1us"})
    CHECK_THAT(refused("--min-hold", value), Catch::Contains("at most 30d"));
  CHECK(run_of({"--min-hold", "30d"}).promises.min_hold == 30 * 24h);
  CHECK_THAT(refused("--once-per", "0"), Catch::Contains("more than 0"));
  CHECK_THAT(refused("--backoff", "0", "--attempts=2"), Catch::Contains("more than 0"));
  CHECK_THAT(refused("--attempts", "0"), Catch::Contains("at least 1"));
  for (const auto* const value : {"-1", "1.5", "many", "", "forever", "10000000000"})
    refused("--attempts", value);
  for (const auto* const value : {"0.99", "0", "-2"})
    CHECK_THAT(refused("--backoff-multiplier", value, "--attempts=2"), Catch::Contains("at least 1"));
  for (const auto* const value : {"nan", "inf", "1,5", "fast", "", "2x", "1e999"})
    CHECK_THAT(refused("--backoff-multiplier", value, "--attempts=2"), Catch::Contains("not a number"));
  CHECK_THAT(refused("--backoff", "2s"), Catch::Contains("--attempts"));
  CHECK_THAT(refused("--backoff-multiplier", "2"), Catch::Contains("--attempts"));
  CHECK_THAT(usage_error({"acquire", "-k", "a", "--ttl", "5s", "--once-per", "1d"}),
             Catch::Contains("--once-per"));
}

TEST_CASE("a limit on the run time can be taken back") {
  CHECK_FALSE(run_of({"--max-runtime", "0"}).max_runtime.has_value());
  CHECK_FALSE(run_of({"--max-runtime", "1h", "--max-runtime", "forever"}).max_runtime.has_value());
}

TEST_CASE("an expected run time can be taken back, and a typed hook for overdue jobs needs one") {
  CHECK_FALSE(run_of({}).expect.has_value());
  CHECK(run_of({"--expect", "1h30m"}).expect == 90min);
  CHECK_FALSE(run_of({"--expect", "0"}).expect.has_value());
  CHECK_FALSE(run_of({"--expect", "1h", "--expect", "forever"}).expect.has_value());
  CHECK(run_of({"--expect", "1h", "--on-overdue", "page"}).hooks.overdue == "page");
  CHECK_THAT(usage_error({"run", "-k", "a", "--on-overdue", "page", "true"}),
             Catch::Contains("--on-overdue: needs --expect D"));
  usage_error({"run", "-k", "a", "--on-overdue", "page", "--expect", "forever", "true"});
  CHECK(run_of({"--on-overdue="}).hooks.overdue.empty());
  World world;
  world.set("DBLOCK_ON_OVERDUE", "page");
  CHECK_FALSE(world.request<app::RunRequest>({"run", "-k", "a", "true"}).expect.has_value());
  world.set("DBLOCK_EXPECT", "5m");
  CHECK(world.request<app::RunRequest>({"run", "-k", "a", "true"}).expect == 5min);
}

TEST_CASE("a shell command and a command exclude each other when both are typed") {
  World world;
  const auto shell = world.request<app::RunRequest>({"run", "-k", "a", "-c", "make | tee"});
  CHECK(shell.shell_command == "make | tee");
  CHECK(shell.command.empty());
  CHECK_THAT(usage_error({"run", "-k", "a", "-c", "x", "true"}), Catch::Contains("choose one"));
  world.set("DBLOCK_COMMAND", "from outside");
  CHECK_FALSE(world.request<app::RunRequest>({"run", "-k", "a", "true"}).shell_command.has_value());
}

TEST_CASE("several keys come sorted and each once") {
  World world;
  const auto request =
      world.request<app::RunRequest>({"run", "-k", "c", "-k", "a", "-k", "b", "-k", "a", "true"});
  CHECK(request.key.bytes() == "a");
  REQUIRE(request.further_keys.size() == 2);
  CHECK(request.further_keys[0].bytes() == "b");
  CHECK(request.further_keys[1].bytes() == "c");
  CHECK(world.request<app::RunRequest>({"run", "-k", "c", "true"}).further_keys.empty());
}

TEST_CASE("slots, readers and the one holder exclude each other, and the stronger word wins") {
  using lease::Mode;
  using lease::Sharing;
  World world;
  const auto sharing = [&world](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "-k", "a"});
    words.emplace_back("true");
    return world.request<app::RunRequest>(words).sharing;
  };
  CHECK(sharing({}) == Sharing{});
  CHECK(sharing({"-x"}) == Sharing{});
  CHECK(sharing({"--slots", "1"}) == Sharing{});
  CHECK(sharing({"-s"}) == Sharing{Mode::shared, 1});
  CHECK(sharing({"--slots", "3"}) == Sharing{Mode::slot, 3});
  world.set("DBLOCK_SLOTS", "4");
  CHECK(sharing({}) == Sharing{Mode::slot, 4});
  CHECK(sharing({"--shared"}) == Sharing{Mode::shared, 1});
  CHECK(sharing({"--exclusive"}) == Sharing{});
  CHECK_THAT(usage_error({"run", "-k", "a", "--slots", "0", "true"}), Catch::Contains("at least 1"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--slots", "-1", "true"}), Catch::Contains("whole number"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--slots", "2", "-s", "true"}), Catch::Contains("choose one"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--slots", "1", "-s", "true"}), Catch::Contains("choose one"));
  CHECK_THAT(usage_error({"run", "-k", "a", "-x", "-s", "true"}), Catch::Contains("choose one"));
  CHECK_THAT(usage_error({"acquire", "-k", "a", "--ttl", "5s", "--slots", "2", "-s"}),
             Catch::Contains("choose one"));
}

TEST_CASE("run refuses what makes no sense") {
  CHECK_THAT(usage_error({"run", "-k", "a"}), Catch::Contains("command"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--"}), Catch::Contains("command"));
  CHECK_THAT(usage_error({"run", "true"}), Catch::Contains("--key"));
  CHECK_THAT(usage_error({"acquire", "-k", "a", "-k", "b", "--ttl", "5s"}), Catch::Contains("one key"));
  CHECK_THAT(usage_error({"run", "-k", "a", "-k", "b", "--slots", "2", "true"}),
             Catch::Contains("one --key"));
  CHECK_THAT(usage_error({"run", "-k", "", "true"}), Catch::StartsWith("--key: "));
  CHECK_THAT(usage_error({"run", "-k", "a", "-w", "10", "true"}), Catch::Contains("write 10s"));
  CHECK_THAT(usage_error({"run", "-k", "a", "-E", "256", "true"}), Catch::Contains("255"));
  CHECK_THAT(usage_error({"run", "-k", "a", "-E", "-1", "true"}), Catch::Contains("whole number"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--signal", "NOSUCH", "true"}), Catch::Contains("signal"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--leftovers", "eat", "true"}), Catch::Contains("auto, wait"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--heartbeat", "1m", "true"}), Catch::Contains("heartbeat"));
  usage_error({"run", "-k", "a", "--ttl", "forever", "true"});
  usage_error({"run", "-k", "a", "--status-file", "", "true"});
}

TEST_CASE("signals are known by name in any spelling and by number") {
  CHECK(parse_signal("TERM") == SIGTERM);
  CHECK(parse_signal("SIGHUP") == SIGHUP);
  CHECK(parse_signal("usr1") == SIGUSR1);
  CHECK(parse_signal("15") == 15);
  for (const char* text : {"", "0", "-1", "65", "SIG", "SIGSIGTERM", "TERM ", "1x"}) {
    CHECK_FALSE(parse_signal(text).has_value());
  }
}

TEST_CASE("acquire needs a ttl or a process and names both") {
  CHECK_THAT(usage_error({"acquire", "--key", "a"}),
             Catch::Contains("--ttl") && Catch::Contains("--while-pid"));
  const World world;
  const auto acquire =
      world.request<app::AcquireRequest>({"acquire", "--key", "a", "--ttl", "5m", "--margin", "1s"});
  CHECK(acquire.timing.ttl == 5min);
  CHECK(acquire.timing.margin == 1s);
}

TEST_CASE("acquire for a process has run's ttl and sends TERM unless told otherwise") {
  World world;
  const auto plain = world.request<app::AcquireRequest>({"acquire", "-k", "a", "--while-pid", "42"});
  REQUIRE(plain.while_pid);
  CHECK(plain.while_pid->pid == 42);
  CHECK(plain.while_pid->lost_signal == 15);
  CHECK(plain.timing.ttl == 2min);
  CHECK(plain.timing.heartbeat == 15s);
  const auto told = world.request<app::AcquireRequest>(
      {"acquire", "-k", "a", "--while-pid", "42", "--lost-signal", "hup", "--ttl", "30s"});
  CHECK(told.while_pid->lost_signal == 1);
  CHECK(told.timing.ttl == 30s);
  CHECK_FALSE(world.request<app::AcquireRequest>({"acquire", "-k", "a", "--ttl", "5s"}).while_pid);
  CHECK_THAT(usage_error({"acquire", "-k", "a", "--ttl", "5s", "--lost-signal", "HUP"}),
             Catch::Contains("--while-pid"));
  for (const char* pid : {"0", "-1", "self", "2147483648"})
    CHECK_THAT(usage_error({"acquire", "-k", "a", "--while-pid", pid}), Catch::Contains("--while-pid"));
}

TEST_CASE("a failing acquire is known to have been asked for shell output") {
  const World world;
  CHECK(world.read({"acquire", "--key", "a", "--format", "shell"}).output.shell);
  CHECK(world.read({"acquire", "--nonsense", "--format", "shell"}).output.shell);
  CHECK(world.read({"acquire", "--nonsense", "--format=shell"}).output.shell);
  CHECK_FALSE(world.read({"acquire", "--nonsense"}).output.shell);
  CHECK_FALSE(world.read({"run", "--nonsense", "--format=shell"}).output.shell);
}

TEST_CASE("json and format are one choice") {
  World world;
  CHECK(world.read({"inspect", "--format", "json"}).output.json);
  CHECK(world.read({"--json", "inspect", "--format", "json"}).output.json);
  CHECK_THAT(usage_error({"--json", "inspect", "--format", "table"}), Catch::Contains("choose one"));
  world.set("DBLOCK_JSON", "1");
  CHECK_FALSE(world.read({"inspect", "--format", "table"}).output.json);
  const auto line = world.read({"acquire", "-k", "a", "--ttl", "5s", "--format", "shell"});
  CHECK(line.output.shell);
  CHECK_FALSE(line.output.json);
}

TEST_CASE("release by force is spelled step by step") {
  const World world;
  const auto shown = world.request<app::ReleaseRequest>({"release", "-k", "a", "--force"});
  CHECK(shown.force);
  CHECK_FALSE(shown.token.has_value());
  const auto revoke = world.request<app::ReleaseRequest>(
      {"release", "-k", "a", "--force", "--token", "1700000000000000", "--wait", "forever"});
  CHECK(revoke.token->value == 1700000000000000U);
  REQUIRE(revoke.wait.has_value());
  CHECK_FALSE(revoke.wait->limit.has_value());
  CHECK(world.request<app::ReleaseRequest>({"release", "-k", "a", "--force", "--token", "1", "--now"}).now);
  usage_error({"release", "-k", "a"});
  usage_error({"release", "-k", "a", "--token", "1"});
  usage_error({"release", "-k", "a", "--owner", "o", "--now"});
  usage_error({"release", "-k", "a", "--force", "--now"});
  usage_error({"release", "-k", "a", "--force", "--wait", "5s"});
  usage_error({"release", "-k", "a", "--force", "--owner", "o"});
  usage_error({"release", "-k", "a", "--force", "--token", "abc"});
  usage_error({"release", "-k", "a", "--force", "--token", "99999999999999999999"});
}

TEST_CASE("pause takes one of key and prefix, and one of a length and a time") {
  const World world;
  const auto pause = world.request<app::PauseRequest>(
      {"pause", "-k", "a", "--for", "2h", "--note", "new disks", "--wait", "30m"});
  CHECK(pause.scope == lease::PauseScope{"a", false});
  CHECK(std::get<Micros>(pause.end) == 2h);
  CHECK(pause.identity.note == "new disks");
  CHECK(pause.wait->limit == 30min);
  const auto all = world.request<app::PauseRequest>(
      {"pause", "--prefix", "", "--until", "1970-01-02T00:00:00Z", "-w", "forever"});
  CHECK(all.scope == lease::PauseScope{"", true});
  CHECK(std::get<lease::ServerTime>(all.end).since_epoch == 24h);
  CHECK_FALSE(all.wait->limit);
  CHECK_FALSE(world.request<app::PauseRequest>({"pause", "-k", "a", "--for", "1s"}).wait);
  CHECK(world.request<app::ResumeRequest>({"resume", "--prefix", "etl-"}).scope ==
        lease::PauseScope{"etl-", true});
  for (const Words& words :
       {Words{}, Words{"-k", "a"}, Words{"--for", "1h"}, Words{"-k", "a", "--prefix", "b", "--for", "1h"},
        Words{"-k", "a", "-k", "b", "--for", "1h"},
        Words{"-k", "a", "--for", "1h", "--until", "2026-11-25T06:00:00Z"}, Words{"-k", "a", "--for", "0"},
        Words{"-k", "a", "--for", "3651d"}, Words{"-k", "a", "--for", "forever"},
        Words{"--prefix", "a\nb", "--for", "1h"}, Words{"--prefix", std::string(256, 'a'), "--for", "1h"}}) {
    Words line{"pause"};
    line.insert(line.end(), words.begin(), words.end());
    usage_error(line);
  }
  usage_error({"resume"});
  usage_error({"resume", "-k", "a", "--prefix", "b"});
  CHECK_THAT(usage_error({"pause", "-k", "a", "--until", "tomorrow"}),
             Catch::Contains("2026-11-25T06:00:00Z"));
}

TEST_CASE("inspect takes many keys and wants them for its verdicts") {
  const World world;
  const auto inspect =
      world.request<app::InspectRequest>({"inspect", "-k", "a", "--key", "b", "--max-age", "26h"});
  CHECK(inspect.keys.size() == 2);
  CHECK(inspect.max_age == 26h);
  usage_error({"inspect", "--max-age", "26h"});
  usage_error({"inspect", "--exit-code"});
  usage_error({"inspect", "-k", "a", "--exit-code", "--max-age", "1h"});
  CHECK(world.request<app::InspectRequest>({"inspect", "--prefix", "a", "--max-age", "1h"}).max_age == 1h);
  usage_error({"inspect", "-k", "a", "--prefix", "a", "--max-age", "1h"});
  usage_error({"inspect", "--prefix", "a", "--exit-code"});
  for (const Words& selection : {Words{}, Words{"-k", "a"}, Words{"--prefix", "a"}}) {
    Words words{"inspect", "--max-held", "90m"};
    words.insert(words.end(), selection.begin(), selection.end());
    CHECK(world.request<app::InspectRequest>(words).max_held == 90min);
  }
  usage_error({"inspect", "-k", "a", "--max-held", "1h", "--max-age", "1h"});
  usage_error({"inspect", "-k", "a", "--max-held", "1h", "--exit-code"});
  usage_error({"inspect", "--max-held", "1h", "--watch"});
  usage_error({"inspect", "--max-held", "0"});
  CHECK(world.request<app::InspectRequest>({"inspect", "--max-failures", "3"}).max_failures == 3U);
  for (const auto* const number : {"0", "3s", "-1"}) usage_error({"inspect", "--max-failures", number});
  usage_error({"inspect", "--max-failures", "3", "--max-held", "1h"});
  usage_error({"inspect", "--max-failures", "3", "--watch"});
  usage_error({"inspect", "--format", "cobol"});
}

TEST_CASE("reap keeps rows for at least a day") {
  const World world;
  CHECK(world.request<app::ReapRequest>({"reap"}).forget_after == 400 * 24h);
  CHECK(world.request<app::ReapRequest>({"reap", "--forget-after", "1d", "--every", "6s"}).every == 6s);
  CHECK_THAT(usage_error({"reap", "--forget-after", "23h"}), Catch::Contains("1d"));
  usage_error({"reap", "--every", "0"});
}

TEST_CASE("migrate does one thing at a time") {
  using Action = app::MigrateRequest::Action;
  const World world;
  CHECK(world.request<app::MigrateRequest>({"migrate"}).action == Action::apply);
  CHECK(world.request<app::MigrateRequest>({"migrate", "--dry-run"}).action == Action::dry_run);
  CHECK(world.request<app::MigrateRequest>({"migrate", "--print-grants", "u"}).grants_user == "u");
  usage_error({"migrate", "--status", "--dry-run"});
  usage_error({"migrate", "--print-grants", ""});
}

TEST_CASE("the database comes from flag or environment and the flag is remembered") {
  World world;
  world.set("DBLOCK_DB", "mysql://env/d").set("DBLOCK_PASSWORD_FILE", "/pw").set("HOME", "/h");
  world.set("DBLOCK_PASSWORD", "secret");
  const auto by_variable = world.request<app::InspectRequest>({"inspect"}).database;
  CHECK(by_variable.url == "mysql://env/d");
  CHECK_FALSE(by_variable.url_from_command_line);
  CHECK(by_variable.password_file == "/pw");
  CHECK(by_variable.password == "secret");
  CHECK_FALSE(by_variable.in_password_command);
  CHECK_FALSE(by_variable.password_command.has_value());
  CHECK(by_variable.home == "/h");
  const auto by_flag = world.request<app::InspectRequest>({"inspect", "--db", "mysql://flag/d"}).database;
  CHECK(by_flag.url == "mysql://flag/d");
  CHECK(by_flag.url_from_command_line);
}

TEST_CASE("the command that prints the password comes from configuration files alone") {
  World world;
  world.set_home().set("DBLOCK_PASSWORD_COMMAND", "variable");
  const auto command = [&](const Words& words) {
    return world.request<app::InspectRequest>(words).database.password_command;
  };
  CHECK_FALSE(command({"inspect"}).has_value());
  CHECK(world.refusal({"inspect", "--password-command", "typed"}).code == Errc::usage);
  world.write("system.conf", "password-command = cat /pw # x\n");
  CHECK(command({"inspect"})->command == "cat /pw # x");
  CHECK(command({"inspect"})->from == "password-command in " + world.path("system.conf"));
  world.write(".config/dblock.conf", "password-command = mine\n[run]\npassword-command = of run\n");
  CHECK(command({"inspect"})->command == "mine");
  CHECK(world.request<app::RunRequest>({"run", "-k", "a", "true"}).database.password_command->command ==
        "of run");
  world.set("DBLOCK_EVENT", "password");
  CHECK(world.request<app::InspectRequest>({"inspect"}).database.in_password_command);
}

TEST_CASE("a configuration file names the file of the password, and DBLOCK_PASSWORD_FILE another") {
  World world;
  world.write("system.conf", "password-file = /of/all\n[run]\npassword-file = \"/of/run\"\n");
  const auto inspect = world.request<app::InspectRequest>({"inspect"}).database;
  CHECK(inspect.config_password_file == "/of/all");
  CHECK_FALSE(inspect.password_file.has_value());
  CHECK(world.request<app::RunRequest>({"run", "-k", "a", "true"}).database.config_password_file ==
        "/of/run");
  world.set("DBLOCK_PASSWORD_FILE", "/of/variable");
  CHECK(world.request<app::InspectRequest>({"inspect"}).database.password_file == "/of/variable");
}

TEST_CASE("doctor is told which variables named like dblock's nobody reads") {
  World world;
  for (const auto& name : variable_names()) world.set("DBLOCK_" + name, "");
  world.set("DBLOCK_WIAT", "5m").set("DBLOCK_PASWORD", "secret").set("DBLOCK_BACKUP_DIRECTORY", "/x");
  std::map<std::string, std::string> meant;
  for (const auto& variable : world.request<app::DoctorRequest>({"doctor"}).unread)
    meant[variable.name] = variable.meant;
  CHECK(meant == std::map<std::string, std::string>{{"DBLOCK_WIAT", "DBLOCK_WAIT"},
                                                    {"DBLOCK_PASWORD", "DBLOCK_PASSWORD"},
                                                    {"DBLOCK_BACKUP_DIRECTORY", ""}});
}

TEST_CASE("the note defaults to the page of the CI job") {
  const Words words{"run", "-k", "a", "true"};
  World world;
  CHECK(world.request<app::RunRequest>(words).identity.note.empty());
  world.set("BUILD_URL", "https://jenkins/1");
  CHECK(world.request<app::RunRequest>(words).identity.note == "https://jenkins/1");
  world.set("GITHUB_SERVER_URL", "https://github.com").set("GITHUB_REPOSITORY", "o/r");
  CHECK(world.request<app::RunRequest>(words).identity.note == "https://jenkins/1");
  world.set("GITHUB_RUN_ID", "7");
  CHECK(world.request<app::RunRequest>(words).identity.note == "https://github.com/o/r/actions/runs/7");
  world.set("DBLOCK_NOTE", "mine").set("DBLOCK_HOLDER", "web");
  const auto identity = world.request<app::RunRequest>(words).identity;
  CHECK(identity.note == "mine");
  CHECK(identity.display_name == "web");
}

}  // namespace
}  // namespace dblock::cli
