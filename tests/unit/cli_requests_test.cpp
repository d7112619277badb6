#include <csignal>

#include "cli/convert.hpp"
#include "cli_fixture.hpp"

namespace dblock::cli {
namespace {

using namespace std::chrono_literals;

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

TEST_CASE("run has the documented defaults") {
  const auto run = run_of({});
  CHECK(run.key.bytes() == "a");
  CHECK(run.timing.ttl == 2min);
  CHECK(run.timing.heartbeat == 15s);
  CHECK(run.timing.kill_grace == 4s);
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

TEST_CASE("run takes every option it documents") {
  const auto run = run_of({"--ttl=1h",
                           "--heartbeat",
                           "10s",
                           "--kill-grace",
                           "1m",
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

TEST_CASE("a limit on the run time can be taken back") {
  CHECK_FALSE(run_of({"--max-runtime", "0"}).max_runtime.has_value());
  CHECK_FALSE(run_of({"--max-runtime", "1h", "--max-runtime", "forever"}).max_runtime.has_value());
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

TEST_CASE("run refuses what makes no sense") {
  CHECK_THAT(usage_error({"run", "-k", "a"}), Catch::Contains("command"));
  CHECK_THAT(usage_error({"run", "-k", "a", "--"}), Catch::Contains("command"));
  CHECK_THAT(usage_error({"run", "true"}), Catch::Contains("--key"));
  CHECK_THAT(usage_error({"run", "-k", "a", "-k", "b", "true"}), Catch::Contains("several keys"));
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

TEST_CASE("acquire needs a ttl and names it") {
  CHECK_THAT(usage_error({"acquire", "--key", "a"}), Catch::Contains("--ttl"));
  const World world;
  const auto acquire =
      world.request<app::AcquireRequest>({"acquire", "--key", "a", "--ttl", "5m", "--margin", "1s"});
  CHECK(acquire.timing.ttl == 5min);
  CHECK(acquire.timing.margin == 1s);
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

TEST_CASE("inspect takes many keys and wants them for its verdicts") {
  const World world;
  const auto inspect =
      world.request<app::InspectRequest>({"inspect", "-k", "a", "--key", "b", "--max-age", "26h"});
  CHECK(inspect.keys.size() == 2);
  CHECK(inspect.max_age == 26h);
  usage_error({"inspect", "--max-age", "26h"});
  usage_error({"inspect", "--exit-code"});
  usage_error({"inspect", "-k", "a", "--exit-code", "--max-age", "1h"});
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
  const auto by_variable = world.request<app::InspectRequest>({"inspect"}).database;
  CHECK(by_variable.url == "mysql://env/d");
  CHECK_FALSE(by_variable.url_from_command_line);
  CHECK(by_variable.password_file == "/pw");
  CHECK(by_variable.home == "/h");
  const auto by_flag = world.request<app::InspectRequest>({"inspect", "--db", "mysql://flag/d"}).database;
  CHECK(by_flag.url == "mysql://flag/d");
  CHECK(by_flag.url_from_command_line);
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
