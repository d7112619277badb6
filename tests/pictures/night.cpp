#include "pictures/night.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "support/config.hpp"
#include "support/dblock.hpp"

namespace dblock::test {
namespace {

constexpr int k_hour = 3600;

struct Run {
  std::string key;
  int begin;  // seconds after 18:00
  int length;
  std::string outcome;
  std::string exit_code;
  std::string who;
  std::string command;
  std::string note;
  std::string mode = "exclusive";
};

constexpr int at(int hour, int minute) {
  return (hour < 18 ? hour + 6 : hour - 18) * k_hour + minute * 60;
}

std::vector<Run> deployments() {
  const auto run = [](int begin, int minutes, const std::string& outcome, const std::string& code,
                      const std::string& note) {
    return Run{"deploy-prod", begin, minutes * 60, outcome, code, "ci@runner-3", "deploy.sh", note};
  };
  return {run(at(18, 12), 9, "succeeded", "0", "pipeline 4709"),
          run(at(20, 5), 11, "failed", "1", "pipeline 4710"),
          run(at(20, 40), 60, "timed_out", "124", "pipeline 4711"),
          run(at(21, 40), 12, "succeeded", "0", "pipeline 4712, in line since 20:58"),
          run(at(21, 52), 10, "succeeded", "0", "pipeline 4713, in line since 21:15")};
}

std::vector<Run> nightly_jobs() {
  return {
      {"backup", at(23, 0), 107 * 60, "succeeded", "0", "root@db-host-3", "backup.sh", "full"},
      {"backup", at(5, 0), 31 * 60, "succeeded", "0", "root@db-host-3", "backup.sh", "incremental"},
      {"nightly-etl", at(2, 30), 41 * 60, "failed", "3", "etl@db-host-1", "etl.sh", "full load"},
      {"nightly-etl", at(3, 30), 97 * 60, "succeeded", "0", "etl@db-host-2", "etl.sh", "full load"},
      {"import-orders", at(0, 10), 64 * 60, "lost", "NULL", "shop@web-2", "import.py",
       "the network was away"},
      {"import-orders", at(1, 25), 88 * 60, "succeeded", "0", "shop@web-4", "import.py", ""},
      {"media-convert", at(19, 0), 130 * 60, "signalled", "137", "media@gpu-1", "convert", "out of memory"},
      {"media-convert", at(21, 30), 250 * 60, "succeeded", "0", "media@gpu-2", "convert", ""},
      {"stocktaking", at(3, 50), 55 * 60, "released", "NULL", "anna@laptop", "stock.sh", "by hand"},
      {"stocktaking", at(22, 10), 95 * 60, "abandoned", "NULL", "shop@web-1", "stock.sh",
       "host was switched off"}};
}

// Three slots: who waits begins as another ends.
std::vector<Run> reports() {
  std::vector<Run> runs;
  std::array<int, 3> free{at(4, 0), at(4, 6), at(4, 20)};
  for (int i = 0; i < 11; ++i) {
    auto& slot = *std::ranges::min_element(free);
    const int length = (19 + i * 7 % 17) * 60;
    runs.push_back({"reports", slot, length, i == 6 ? "failed" : "succeeded", i == 6 ? "2" : "0",
                    "etl@db-host-" + std::to_string(i % 3 + 1), "report.sh", "", "slot"});
    slot += length;
  }
  return runs;
}

// Every five minutes, for seconds.
std::vector<Run> heartbeats() {
  std::vector<Run> runs;
  for (int begin = at(18, 0); begin < at(6, 30); begin += 300) {
    const bool bad = begin >= at(0, 20) && begin < at(0, 40);
    runs.push_back({"sync-mail", begin, 20 + begin / 300 % 7 * 9, bad ? "failed" : "succeeded",
                    bad ? "1" : "0", "mail@mx-" + std::to_string(begin / 300 % 2 + 1), "sync.sh", ""});
  }
  return runs;
}

void record(ServerDatabase& database, const Run& run) {
  static int token = 0;
  const auto time = [](int seconds) {
    return "TIMESTAMP'2026-11-23 18:00:00' + INTERVAL " + std::to_string(seconds) + " SECOND";
  };
  const auto split = run.who.find('@');
  const std::string end = time(run.begin + run.length);
  database.sql("INSERT INTO dblock_history VALUES ('" + run.key + "', " + end + ", " +
               std::to_string(1795448893233385 + ++token) + ", 'owner', 'run', '" + run.mode + "', '" +
               run.who.substr(split + 1) + "', 4711, '" + run.who.substr(0, split) + "', '" + run.command +
               "', '" + run.note + "', " + time(run.begin) + ", " +
               (run.outcome == "abandoned" ? "NULL" : end) + ", '" + run.outcome + "', " + run.exit_code +
               ", 1)");
}

void photograph(const std::string& page, const std::string& picture, bool dark) {
  const TempDir profile;
  Spawn spawn;
  spawn.argv = {"chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--user-data-dir=" + profile.path(),
                "--window-size=1200,462",
                std::string("--blink-settings=preferredColorScheme=") + (dark ? "0" : "1"),
                "--screenshot=" + picture,
                "file://" + page};
  if (const auto done = run_program(spawn); done.exit != exited(0))
    throw std::runtime_error("chromium: " + done.err);
}

}  // namespace

void draw_night(const ServerAddress& server, const std::string& directory) {
  ServerDatabase database(server);
  if (dblock_at(database.url("root"), {"migrate", "--history", "on"}).exit != exited(0))
    throw std::runtime_error("no history");
  for (const auto& runs : {deployments(), nightly_jobs(), reports(), heartbeats()})
    for (const auto& run : runs) record(database, run);
  const auto page = dblock_at(database.url("root"), {"history", "--format", "html", "--limit", "400"});
  if (page.exit != exited(0)) throw std::runtime_error("no page: " + page.err);
  const TempDir box;
  write_file(box.file("night.html"), page.out);
  photograph(box.file("night.html"), directory + "/night-light.png", false);
  photograph(box.file("night.html"), directory + "/night-dark.png", true);
}

}  // namespace dblock::test
