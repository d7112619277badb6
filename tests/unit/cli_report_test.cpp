#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "base/width.hpp"
#include "cli/options/help.hpp"
#include "cli/output.hpp"
#include "cli/report/report.hpp"
#include "cli_fixture.hpp"
#include "support/catch.hpp"

namespace dblock::cli {
namespace {

TEST_CASE("who waits is counted in the table and named in JSON, escaped, where it is known") {
  auto lock = held_lock("k");
  lock.waiters = {{"web1", 7, k_hostile, {1h - 5s}}, {"web2", 0, "job", {1h}}};
  CHECK(report_inspected(report_of({lock}), {}, {}, false).find("17     2        etl      note") !=
        std::string::npos);
  OutputOptions output;
  output.json = true;
  const auto json = report_inspected(report_of({lock}), {}, output, false);
  CHECK(json.find(R"("waiters":[{"host":"web1","pid":7,"user":")") != std::string::npos);
  // No process of an application is known.
  CHECK(json.find(R"("place":1},{"host":"web2","pid":null,"user":"job",)"
                  R"("since":"1970-01-01T01:00:00.000000Z","place":2}])") != std::string::npos);
  CHECK(json.find('\x1b') == std::string::npos);
  lock.waiters.emplace();
  CHECK(report_inspected(report_of({lock}), {}, output, false).find(R"("waiters":[])") != std::string::npos);
}

TEST_CASE("the table lines its columns up by characters") {
  const auto text = report_inspected(report_of({held_lock("áé"), held_lock("longer")}), {}, {}, false);
  std::istringstream lines(text);
  std::string header, first, second;
  std::getline(lines, header);
  std::getline(lines, first);
  std::getline(lines, second);
  CHECK(header == "KEY     HOLDER        HELD FOR  EXPIRES IN  TOKEN  WAITERS  COMMAND  NOTE");
  CHECK(first == "áé      user@host:42  1m30s     30s         17     -        etl      note");
  CHECK(second == "longer  user@host:42  1m30s     30s         17     -        etl      note");
}

TEST_CASE("the table lines its columns up by what a terminal shows") {
  const auto text = report_inspected(report_of({held_lock("鍵"), held_lock("e\xcc\x81")}), {}, {}, false);
  CHECK_THAT(text, Catch::Contains("\n鍵   user@host:42") && Catch::Contains("\ne\xcc\x81    user@host:42"));
}

TEST_CASE("in a terminal long names lose their middle, and no line is wider") {
  auto lock = held_lock("deploy/" + std::string(60, 'x') + "/web");
  lock.holder.note = "https://ci.example.org/" + std::string(300, 'y') + "/jobs/4711";
  lock.holder.host = "鍵鍵鍵鍵鍵鍵鍵鍵鍵鍵鍵鍵.example.org";
  lock.token.value = 1'763'779'312'000'001;
  app::InspectRequest request;
  for (const bool all : {false, true}) {
    request.all = all;
    const auto report = report_of({lock, held_lock("k")});
    for (const std::size_t columns : {200, 120, 100, 80, 60, 33, 9, 1}) {
      const auto text = report_inspected(report, request, {}, false, columns);
      INFO(text);
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= columns);
      const auto painted = report_inspected(report, request, {}, true, columns);
      CHECK(std::regex_replace(painted, std::regex("\x1b\\[[0-9]*m"), "") == text);
    }
    const auto wide = report_inspected(report, request, {}, false, 220);
    CHECK_THAT(wide, Catch::Contains("\n" + lock.key + " ") && Catch::Contains("https://ci.") &&
                         Catch::Contains("/jobs/4711\n"));
    CHECK_THAT(wide, Catch::Contains(" 1763779312000001 "));  // whole or not at all
    CHECK_THAT(report_inspected(report, request, {}, false, 80),
               Catch::Contains("\ndeploy/x") && Catch::Contains("x…x") && Catch::Contains("x/web "));
    CHECK_THAT(report_inspected(report, request, {}, false, 0), Catch::Contains(lock.holder.note));
  }
}

TEST_CASE("in a narrow terminal the token is left out first, and the key is cut last") {
  auto lock = held_lock("nightly-etl");
  lock.token.value = 1'763'779'312'000'001;
  lock.holder = {"web01", 12345, "root", "nightly.sh", "for the board"};
  lock.waiters = {{"web2", 8, "job", {1h}}};
  lock.last =
      lease::PastRun{lease::ServerTime{10min}, lease::ServerTime{30min}, lease::RunOutcome::succeeded, 0};
  app::InspectRequest request;
  const auto header = [&](std::size_t columns) {
    const auto text = report_inspected(report_of({lock}), request, {}, false, columns);
    return std::regex_replace(text.substr(0, text.find('\n')), std::regex("   *"), "|");
  };
  CHECK(header(0) == "KEY|HOLDER|HELD FOR|EXPIRES IN|TOKEN|WAITERS|COMMAND|NOTE");
  CHECK(header(110) == header(0));
  CHECK(header(100) == "KEY|HOLDER|HELD FOR|EXPIRES IN|WAITERS|COMMAND|NOTE");
  CHECK(header(80) == "KEY|HOLDER|HELD FOR|EXPIRES IN|WAITERS|NOTE");
  request.all = true;
  CHECK(header(140) == "KEY|STATE|HOLDER|HELD FOR|EXPIRES IN|TOKEN|WAITERS|LAST RUN|COMMAND|NOTE");
  CHECK(header(120) == "KEY|STATE|HOLDER|HELD FOR|EXPIRES IN|WAITERS|LAST RUN|COMMAND|NOTE");
  CHECK(header(80) == "KEY|STATE|HOLDER|HELD FOR|EXPIRES IN|LAST RUN|NOTE");
  lock.key = "a-longer-name-of-a-lock";
  CHECK(header(80) == "KEY|STATE|HOLDER|EXPIRES IN|LAST RUN|NOTE");
  for (const std::size_t length : {12, 30, 47, 55, 80}) {
    lock.key = "deploy/" + std::string(length - 7, 'x');
    const auto text = report_inspected(report_of({lock, held_lock("k")}), request, {}, false, 80);
    INFO(text);
    CHECK((text.find(lock.key + " ") != std::string::npos) == (length < 80));
    // Nothing that tells less is whole then.
    if (length == 80) CHECK(header(80) == "KEY|STATE|HOLDER");
  }
}

TEST_CASE("the table is coloured by what needs a look") {
  auto fresh = held_lock("fresh");
  fresh.heartbeat = 15s;
  fresh.renewed_at = lease::ServerTime{1h - 20s};
  auto late = fresh;
  late.key = "late";
  late.renewed_at = lease::ServerTime{1h - 31s};
  auto revoked = fresh;
  revoked.key = "revoked";
  revoked.revoked_at = lease::ServerTime{1h};
  auto expired = fresh;
  expired.key = "expired";
  expired.state = lease::State::expired;
  const auto text = report_inspected(report_of({fresh, late, revoked, expired}), {}, {}, true);
  CHECK_THAT(text, Catch::Contains("\x1b[32mfresh\x1b[0m ") && Catch::Contains("1m30s     30s "));
  CHECK_THAT(text,
             Catch::Contains("\x1b[32mlate\x1b[0m ") && Catch::Contains("1m30s     \x1b[33m30s\x1b[0m"));
  CHECK_THAT(text, Catch::Contains("1m30s     \x1b[31m30s (revoked)\x1b[0m"));
  CHECK_THAT(text, Catch::Contains("\x1b[31mexpired\x1b[0m ") && Catch::Contains("\x1b[31mexpired\x1b[0m  "));
}

TEST_CASE("the table of an embedded store says first that it is about this user on this host only") {
  auto report = report_of({held_lock("k")});
  const auto fleet = report_inspected(report, {}, {}, false);
  OutputOptions json;
  json.json = true;
  const auto fleet_json = report_inspected(report, {}, json, false);
  report.local_store = "sqlite:/var/lib/" + k_hostile;
  const auto local = report_inspected(report, {}, {}, false);
  CHECK(local ==
        "locks of this user on this host only (" + escape_untrusted(*report.local_store) + ")\n" + fleet);
  CHECK(local.find('\x1b') == std::string::npos);
  CHECK(report_inspected(report, {}, json, false) == fleet_json);
  app::InspectRequest request;
  request.max_age = 1h;
  CHECK(report_inspected(report, request, {}, false).empty());
}

TEST_CASE("pauses stand above the table, escaped, and in every format but CSV") {
  auto report = report_of({held_lock("k")});
  const auto without = report_inspected(report, {}, {}, false);
  report.listing.pauses = {{{"etl-", true}, {2h}, "op@desk", k_hostile, {1h}},
                           {{"k", false}, {3h}, "", "", {1h}}};
  const auto text = report_inspected(report, {}, {}, false);
  CHECK(text == "locks whose keys start with \"etl-\": paused until 1970-01-01T02:00:00Z by op@desk: " +
                    escape_untrusted(k_hostile) + "\nlock \"k\": paused until 1970-01-01T03:00:00Z\n" +
                    without);
  OutputOptions output;
  output.shape = Shape::csv;
  CHECK(report_inspected(report, {}, output, false).find("op@desk") == std::string::npos);
  output.shape = Shape::prometheus;
  const auto metrics = report_inspected(report, {}, output, false);
  CHECK_THAT(metrics, Catch::Contains("\ndblock_pause_end_timestamp_seconds{prefix=\"etl-\"} 7200.000000\n"
                                      "dblock_pause_end_timestamp_seconds{key=\"k\"} 10800.000000\n"));
  output.json = true;
  CHECK_THAT(report_inspected(report, {}, output, false),
             Catch::Contains(R"({"key":"k","until":"1970-01-01T03:00:00.000000Z","by":null,"note":null,)"
                             R"("since":"1970-01-01T01:00:00.000000Z"}]})"));
}

TEST_CASE("help says that a local lock guards this host only") {
  const auto text = help_text(std::nullopt);
  const auto option = text.find("--local ");
  REQUIRE(option != std::string::npos);
  CHECK(text.find("this host only", option) < text.find("--defaults-file"));
  CHECK_THAT(help_text(Subcommand::migrate), Catch::Contains("embedded store"));
}

TEST_CASE("all adds the state and the last run") {
  lease::LockStatus free;
  free.key = "k";
  free.server_time.since_epoch = 1h;
  free.last =
      lease::PastRun{lease::ServerTime{10min}, lease::ServerTime{30min}, lease::RunOutcome::failed, 7};
  app::InspectRequest request;
  request.all = true;
  const auto text = report_inspected(report_of({free}), request, {}, false);
  CHECK_THAT(text, Catch::Contains("STATE") && Catch::Contains("free"));
  CHECK_THAT(text, Catch::Contains("failed (7), 30m ago"));
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(report_inspected(report_of({free}), request, {}, true).find('\x1b') != std::string::npos);
}

TEST_CASE("hostile text reaches no output raw") {
  auto status = held_lock(k_hostile);
  status.holder = {k_hostile, 1, k_hostile, k_hostile, k_hostile};
  auto cooling = status;
  cooling.owner.clear();
  cooling.state = lease::State::cooldown;
  cooling.last =
      lease::PastRun{.acquired_at = {}, .released_at = {}, .outcome = {}, .exit_code = {}, .host = k_hostile};
  for (const bool json : {false, true}) {
    OutputOptions output;
    output.json = json;
    app::ReleaseReport described;
    described.action = app::ReleaseReport::Action::described;
    described.key = k_hostile;
    described.locks = {{status, "next"}, {cooling, "next"}};
    lease::ReapReport reaped;
    reaped.abandoned = {status};
    for (const auto& text : {report_inspected(report_of({status}), {}, output, false),
                             report_released(described, output), report_reaped(reaped, {}, output)}) {
      INFO(text);
      CHECK(is_utf8(text));
      for (const char* raw : {"\x1b", "\xe2\x80\xae", "\xc2\x9b", "\xff"}) {
        CHECK(text.find(raw) == std::string::npos);
      }
    }
  }
}

TEST_CASE("what a forced release would end is shown one by one, each with its command") {
  auto first = held_lock("k");
  first.sharing.mode = lease::Mode::slot;
  first.sharing.slots = 3;
  first.slot = 2;
  first.heartbeat = 1'666'666us;
  first.renewed_at = lease::ServerTime{1h - 12s};
  lease::LockStatus cooling;
  cooling.key = "k";
  cooling.state = lease::State::cooldown;
  cooling.server_time.since_epoch = 1h;
  cooling.hold_until = lease::ServerTime{1h + 90s + 900ms};
  cooling.last =
      lease::PastRun{.acquired_at = {}, .released_at = {}, .outcome = {}, .exit_code = {}, .host = "web1"};
  app::ReleaseReport report;
  report.action = app::ReleaseReport::Action::described;
  report.key = "k";
  CHECK(report_released(report, {}) == "nobody holds lock \"k\"\n");
  report.locks = {{first, "first command"}, {cooling, "second command"}};
  CHECK(report_released(report, {}) ==
        "key:            k\n"
        "holder:         user@host:42 in slot 2 of 3\n"
        "note:           note\n"
        "last heartbeat: 12s ago (one every 1.6s)\n"
        "to revoke it:   first command\n"
        "\n"
        "key:            k\n"
        "cooling down:   for another 1m30s, after web1's run (--min-hold)\n"
        "to end that:    second command\n");
  OutputOptions output;
  output.json = true;
  const auto json = report_released(report, output);
  CHECK(json.starts_with(R"({"format":1,"action":"described","key":"k","locks":[{"key":"k",)"));
  CHECK_THAT(json, Catch::Contains(R"("next_command":"first command"},{"key":"k",)") &&
                       Catch::EndsWith("\"next_command\":\"second command\"}]}\n"));
}

TEST_CASE("json of inspect keeps the documented order and null where nothing is known") {
  OutputOptions output;
  output.json = true;
  lease::LockStatus free;
  free.key = "k";
  const auto text = report_inspected(report_of({free}), {}, output, false);
  CHECK(text ==
        R"({"format":1,"server_time":"1970-01-01T01:00:00.000000Z","locks":[{"key":"k","kind":null,)"
        R"("mode":"exclusive","slot":null,"state":"free","owner":null,"token":null,"count":0,"host":null,)"
        R"("pid":null,"user":null,"command":null,"note":null,"acquired_at":null,"renewed_at":null,)"
        R"("expires_at":null,"ttl_ms":null,"margin_ms":null,"remaining_ms":null,"held_ms":null,)"
        R"("waiters":null,"last":null,"last_success":null,"failures":0,"job_ended_at":null}],"pauses":[]})"
        "\n");
  const auto held = report_inspected(report_of({held_lock("k")}), {}, output, false);
  CHECK_THAT(held, Catch::Contains(R"("remaining_ms":30000,"held_ms":90000)"));
}

TEST_CASE("max-age, max-held and max-failures print a line for each complaint, no table, and the same JSON") {
  app::InspectRequest age;
  age.max_age = 1h;
  app::InspectRequest held;
  held.max_held = 1h;
  app::InspectRequest failures;
  failures.max_failures = 3;
  OutputOptions json;
  json.json = true;
  for (const auto& request : {age, held, failures}) {
    auto report = report_of({held_lock("k")});
    CHECK(report_inspected(report, request, {}, false).empty());
    report.complaints = {"a is old", "b is old"};
    CHECK(report_inspected(report, request, {}, false) == "a is old\nb is old\n");
    CHECK(report_inspected(report, request, json, false) == report_inspected(report, {}, json, false));
  }
}

TEST_CASE("what acquire prints can be evaluated by a shell") {
  auto key = lease::Key::parse("it's");
  REQUIRE(key.has_value());
  app::Acquired acquired{.lease = {.key = *key, .owner = {"h-1"}, .token = {17}, .terms = {}, .sent_at = {}},
                         .status = {}};
  CHECK(report_acquired(acquired, {}) == "h-1\n");
  OutputOptions shell;
  shell.shell = true;
  CHECK(report_acquired(acquired, shell) ==
        "export DBLOCK_KEY='it'\\''s' DBLOCK_OWNER='h-1' DBLOCK_TOKEN='17'\n");
  CHECK(report_shell_failure(75) == "(exit 75)\n");
}

TEST_CASE("every help fits a large screen and ends with two examples") {
  std::vector<std::string> texts{help_text(std::nullopt)};
  for (const auto& spec : subcommand_specs()) {
    if (!spec.hidden && !spec.prints_text) texts.push_back(help_text(spec.id));
  }
  for (const auto& text : texts) {
    INFO(text);
    const auto screens = text.find("\nAdvanced:\n") == std::string::npos ? 1 : 2;
    CHECK(std::ranges::count(text, '\n') <= 50 * screens);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
    const auto examples = text.substr(text.find("\nExamples:\n") + 11);
    CHECK(std::ranges::count(examples, '\n') == 2);
  }
}

TEST_CASE("the help of run leads with what most people need, and names exit codes and recipes") {
  const auto text = help_text(Subcommand::run);
  INFO(text);
  const auto lead = text.substr(0, text.find("\nAdvanced:\n"));
  CHECK(std::ranges::count(lead, '\n') <= 24);  // a small screen
  for (const auto* const word : {"75", "69", "76", "124", "dblock-run", "dblock-cookbook"})
    CHECK_THAT(lead, Catch::Contains(word));
  std::vector<std::string> leading;
  std::istringstream lines(lead);
  for (std::string line; std::getline(lines, line);)
    if (line.find(" --") == 5 || line.find("--") == 6)
      leading.push_back(line.substr(6, line.find(' ', 6) - 6));
  CHECK(leading == std::vector<std::string>{"--key", "--wait", "--nonblock", "--conflict-exit-code",
                                            "--command", "--max-runtime", "--once-per", "--min-hold",
                                            "--with-parent", "--note"});
  const auto rest = text.substr(lead.size(), text.find("\nGlobal options") - lead.size());
  for (const auto& spec : option_specs()) {
    if ((spec.scope & scope_of(Subcommand::run)) == 0) continue;
    const auto option = " --" + std::string(spec.name) + " ";
    INFO(option);
    CHECK((lead.find(option) != std::string::npos) != (rest.find(option) != std::string::npos));
  }
  for (const auto* const heading : {"\n\nLock:\n", "\n\nWaiting:\n", "\n\nJob:\n", "\n\nReporting:\n"})
    CHECK_THAT(rest, Catch::Contains(heading));
}

TEST_CASE("help names every value of an option that has a choice of few") {
  std::size_t found = 0;
  for (const auto& spec : option_specs()) {
    for (const auto choice : choices_of(spec)) {
      INFO(spec.name << " " << choice);
      CHECK(spec.help.find(choice) != std::string_view::npos);
      ++found;
    }
  }
  CHECK(found >= 13);
  CHECK(choices_of(*find_option("color", k_global)) ==
        std::vector<std::string_view>{"auto", "always", "never"});
}

TEST_CASE("what only completions ask for is offered to nobody") {
  CHECK(find_subcommand("__keys") == Subcommand::keys);
  CHECK(help_text(std::nullopt).find("__keys") == std::string::npos);
  CHECK(names_of(~Scope{0}).find("__keys") == std::string::npos);
}

TEST_CASE("no two options of a subcommand share a name or a letter") {
  for (const auto& command : subcommand_specs()) {
    const auto scope = scope_of(command.id) | k_global;
    std::vector<std::string> seen;
    for (const auto& spec : option_specs()) {
      if ((spec.scope & scope) == 0) continue;
      seen.emplace_back(spec.name);
      if (spec.letter != 0) seen.emplace_back(1, spec.letter);
    }
    std::ranges::sort(seen);
    CHECK(std::ranges::adjacent_find(seen) == seen.end());
  }
}

TEST_CASE("variables are named after options and none is read that a job is given") {
  const auto* const grace = find_option("kill-grace", scope_of(Subcommand::run));
  REQUIRE(grace != nullptr);
  CHECK(environment_name(*grace) == "DBLOCK_KILL_GRACE");
  for (const auto& spec : option_specs()) {
    const auto name = environment_name(spec);
    for (const char* output : {"DBLOCK_KEY", "DBLOCK_OWNER", "DBLOCK_TOKEN", "DBLOCK_SLOT", "DBLOCK_HELD"}) {
      CHECK(name != output);
    }
  }
}

TEST_CASE("a result that cannot be written is an error and no signal") {
  const UniqueFd saved(::dup(STDOUT_FILENO));
  const auto write_to = [&](int fd) {
    ::dup2(fd, STDOUT_FILENO);
    auto written = write_result("text\n");
    ::dup2(saved.get(), STDOUT_FILENO);
    return written;
  };
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const auto no_space = write_to(full.get());
  REQUIRE_FALSE(no_space.has_value());
  CHECK(no_space.error().code == Errc::internal);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ::close(ends[0]);
  const UniqueFd broken(ends[1]);
  CHECK_FALSE(write_to(broken.get()).has_value());
}

lease::History past_runs() {
  lease::History history;
  history.kept = true;
  history.server_time.since_epoch = 2h;
  lease::RecordedRun run;
  run.key = "nightly";
  run.token = {17};
  run.owner = "owner";
  run.holder = {"web1", 42, "job", "etl.sh", k_hostile};
  run.acquired_at = lease::ServerTime{1h};
  run.released_at = lease::ServerTime{1h + 90s};
  run.recorded_at = *run.released_at;
  run.outcome = lease::RunOutcome::failed;
  run.exit_code = 3;
  run.attempts = 1;
  history.runs.push_back(run);
  run.key = k_hostile;
  run.released_at.reset();
  run.exit_code.reset();
  run.attempts.reset();
  run.holder = {};
  run.outcome = lease::RunOutcome::abandoned;
  history.runs.push_back(run);
  return history;
}

TEST_CASE("the history has an aligned line for each run, with what a row made up escaped") {
  auto history = past_runs();
  const auto text = report_history(history, {}, false);
  std::istringstream lines(text);
  std::string header, first, second, rest;
  std::getline(lines, header);
  std::getline(lines, first);
  std::getline(lines, second);
  CHECK_FALSE(std::getline(lines, rest));
  const auto at = header.find("STARTED");
  CHECK(header.starts_with("KEY "));
  CHECK(first.starts_with("nightly "));
  CHECK(first.substr(at) == "1970-01-01T01:00:00Z  1m30s     failed     3     job@web1:42 (etl.sh)  " +
                                escape_untrusted(k_hostile));
  CHECK(second == escape_untrusted(k_hostile) +
                      "  1970-01-01T01:00:00Z  -         abandoned  -     -                     -");
  CHECK(text.find('\x1b') == std::string::npos);
  history.cut = true;
  CHECK_THAT(report_history(history, {}, false), Catch::Contains("there are more; --limit"));
}

TEST_CASE("the history fits the terminal it is shown in") {
  auto history = past_runs();
  history.runs.front().holder.note = "https://ci.example.org/" + std::string(300, 'y') + "/jobs/4711";
  for (const std::size_t columns : {200, 120, 80, 60, 33, 9, 1}) {
    std::istringstream lines(report_history(history, {}, false, columns));
    for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= columns);
  }
  history.runs.resize(1);
  const auto narrow = report_history(history, {}, false, 80);
  CHECK_THAT(narrow, Catch::Contains("\nnightly ") && Catch::Contains(" failed ") && Catch::Contains("htt"));
  history.runs.front().key = "deploy/" + std::string(40, 'x');
  CHECK_THAT(report_history(history, {}, false, 80), Catch::Contains("\n" + history.runs.front().key + " "));
  CHECK_THAT(report_history(history, {}, false), Catch::Contains(history.runs.front().holder.note));
}

TEST_CASE("the history in JSON has every run, and null for what is not known") {
  OutputOptions output;
  output.json = true;
  auto history = past_runs();
  const auto json = report_history(history, output, false);
  CHECK(json.starts_with(
      R"({"format":1,"server_time":"1970-01-01T02:00:00.000000Z","kept":true,"more":false,"runs":[{"key":"nightly",)"
      R"("kind":"run","mode":"exclusive","owner":"owner","token":17,"host":"web1","pid":42,"user":"job","command":)"
      R"("etl.sh","note":")"));
  CHECK(
      json.find(
          R"("acquired_at":"1970-01-01T01:00:00.000000Z","released_at":"1970-01-01T01:01:30.000000Z",)"
          R"("recorded_at":"1970-01-01T01:01:30.000000Z","held_ms":90000,"outcome":"failed","exit_code":3,"attempts":1})") !=
      std::string::npos);
  CHECK(json.find(R"("host":null,"pid":null,"user":null,"command":null,"note":null,)") != std::string::npos);
  CHECK(json.find(R"("released_at":null,)") != std::string::npos);
  CHECK(json.find(R"("held_ms":null,"outcome":"abandoned","exit_code":null,"attempts":null}]})") !=
        std::string::npos);
  CHECK(json.find('\x1b') == std::string::npos);
  history.cut = true;
  CHECK(report_history(history, output, false).find(R"("more":true)") != std::string::npos);
}

TEST_CASE("reap counts forgotten runs where there were any") {
  lease::ReapReport report;
  const app::ReapRequest request;
  CHECK(report_reaped(report, request, {}) == "0 leases freed, 0 idle rows deleted\n");
  report.forgotten_runs = 2;
  CHECK(report_reaped(report, request, {}) == "0 leases freed, 0 idle rows, 2 past runs deleted\n");
  app::ReapRequest repeated;
  repeated.every = 1s;
  CHECK_FALSE(report_reaped(report, repeated, {}).empty());
  report.forgotten_runs = 0;
  CHECK(report_reaped(report, repeated, {}).empty());
}

app::DoctorReport doctors_report() {
  app::DoctorReport report;
  report.findings = {{"tls", doctor::Level::ok, "TLS_AES", "encrypted", {}},
                     {"named-locks", doctor::Level::warn, k_hostile, k_hostile, "db1"},
                     {"schema", doctor::Level::bad, "", "run it", "db1"}};
  report.verdict = doctor::Level::bad;
  return report;
}

TEST_CASE("doctor has a line for each check and a verdict, and hides what a server made up") {
  const auto text = report_doctor(doctors_report(), {}, false);
  CHECK(text.starts_with("ok         tls          TLS_AES: encrypted\n"));
  CHECK(text.find("\nwarn  db1  named-locks  \\x1b[31m\\x0d\\x0a") != std::string::npos);
  CHECK(text.find("\nbad   db1  schema       run it\n") != std::string::npos);
  CHECK(text.ends_with("\nverdict: bad (1 ok, 1 warn, 1 bad)\n"));
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(report_doctor(doctors_report(), {}, true).starts_with("\x1b[32mok\x1b[0m    "));
}

TEST_CASE("doctor in JSON") {
  OutputOptions output;
  output.json = true;
  const auto json = report_doctor(doctors_report(), output, true);
  CHECK(json.starts_with(R"({"format":1,"verdict":"bad","checks":[{"name":"tls","host":null,"level":"ok",)"
                         R"("found":"TLS_AES","message":"encrypted"},)"));
  CHECK(json.find(R"({"name":"schema","host":"db1","level":"bad","found":null,"message":"run it"}])") !=
        std::string::npos);
  CHECK(json.find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace dblock::cli
