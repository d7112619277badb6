// The main job on real input: a compressed dump of a database of some hundred megabytes under
// `dblock run --key nightly-etl`, from two cron-like environments. The size in megabytes can be set by
// DBLOCK_TEST_DUMP_MB.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

long long megabytes() {
  const char* text = std::getenv("DBLOCK_TEST_DUMP_MB");
  return text == nullptr ? 240 : std::atoll(text);
}

// The database to dump, on a server of its own; filled once.
class Warehouse {
 public:
  Warehouse() : server_({"--innodb-buffer-pool-size=256M", large_redo_log()}), root_(server_.address()) {
    root_.sql("CREATE DATABASE shop");
    root_.sql("USE shop");
    root_.sql(
        "CREATE TABLE shop.sales (id BIGINT PRIMARY KEY, customer VARCHAR(64), goods VARCHAR(200), paid "
        "DOUBLE)");
    // About 128 bytes of dump a row, of which half is digits that do not compress to nothing.
    const long long rows = megabytes() * 1'000'000 / 150;
    for (long long from = 1; from <= rows; from += 400'000) {
      root_.sql(
          "INSERT INTO shop.sales SELECT seq, LEFT(SHA2(seq, 256), 32), CONCAT(LEFT(SHA2(seq + 1, 256), 32), "
          "REPEAT(CHAR(97 + seq % 26), "
          "40)), RAND(seq) * 1000 "
          "FROM " +
          numbers(from, std::min(rows, from + 399'999)));
    }
  }
  [[nodiscard]] std::string dump_script(const std::string& file, const std::string& started) const {
    return "touch " + started + "; mariadb-dump --no-defaults -u root -S " + server_.address().socket +
           " --single-transaction shop | gzip -1 > " + file;
  }

 private:
  Server server_;
  Connection root_;
};

// The environment of a cron line. The tree's mark is let through, so that a failed test can clean up.
Spawn cron_line(const ServerDatabase& locks, const Words& options, const std::string& script) {
  Spawn spec;
  spec.argv = {"/bin/sh",
               "-c",
               std::string("exec env -i ") + k_mark_variable + "=$" + k_mark_variable + " \"$@\"",
               "cron",
               "PATH=/usr/bin:/bin:/usr/sbin",
               "HOME=/nonexistent",
               "SHELL=/bin/sh",
               "LOGNAME=etl",
               "DBLOCK_DB=" + locks.url(),
               dblock_binary()};
  spec.argv =
      with(spec.argv, run_words("nightly-etl", options, {"/bin/bash", "-o", "pipefail", "-c", script}));
  return spec;
}

void check_complete_dump(const std::string& file) {
  CHECK(std::filesystem::file_size(file) > static_cast<std::uintmax_t>(megabytes()) * 200'000);
  CHECK(run_program({.argv = {"gzip", "-t", file}}, 120s).exit == exited(0));
  const auto tail = run_program({.argv = sh("gzip -dc " + file + " | tail -c 200")}, 120s);
  CHECK(says(tail.out, "Dump completed"));
}

void two_cron_lines_at_the_same_moment(const Warehouse& warehouse) {
  ServerDatabase locks;
  const TempDir directory;
  Process first(cron_line(locks, {}, warehouse.dump_script(directory.file("a.gz"), directory.file("a"))));
  Process second(cron_line(locks, {}, warehouse.dump_script(directory.file("b.gz"), directory.file("b"))));
  REQUIRE(wait_until([&] { return !second.running() || !first.running(); }));
  const bool second_lost = !second.running();
  Process& winner = second_lost ? first : second;
  Process& loser = second_lost ? second : first;
  check_ends(loser, 75, {":" + std::to_string(winner.pid()), "nightly-etl"});
  CHECK(winner.wait(120s * slowness()) == exited(0));
  check_complete_dump(directory.file(second_lost ? "a.gz" : "b.gz"));
  CHECK_FALSE(std::filesystem::exists(directory.file(second_lost ? "b" : "a")));  // its job never began
  CHECK_FALSE(locks.has_holder("nightly-etl"));
}

void connection_killed_under_the_dump(const Warehouse& warehouse) {
  ServerDatabase locks;
  const TempDir directory;
  Process run(cron_line(locks, {"--ttl", "6s", "--heartbeat", "300ms"},
                        warehouse.dump_script(directory.file("a.gz"), directory.file("a"))));
  await_file(run, directory.file("a"));
  int killed = 0;
  while (run.running() && killed < 5) {
    for (const auto& id : locks.sessions()) killed += locks.kill_session(id) ? 1 : 0;
    pause_for(150ms);
  }
  CHECK(killed >= 1);
  CHECK(run.wait(120s * slowness()) == exited(0));
  check_complete_dump(directory.file("a.gz"));
  CHECK(locks.column("nightly-etl", "last_outcome") == "succeeded");
}

void server_gone_for_longer_than_the_ttl(const Warehouse& warehouse) {
  Server lock_server;
  ServerDatabase locks(lock_server.address());
  const TempDir directory;
  // The pause makes it long enough to be caught on any machine.
  const std::string script =
      warehouse.dump_script(directory.file("a.gz"), directory.file("a")) + "; sleep 60";
  Process run(cron_line(locks, {"--ttl", "3s", "--heartbeat", "300ms", "--kill-grace", "500ms"}, script));
  await_file(run, directory.file("a"));
  const long long expires = await_renewal(locks, "nightly-etl");
  lock_server.freeze();
  const auto job_tree = descendants_of(guardian_of(run));
  CHECK(job_tree.size() >= 3);
  CHECK(last_alive(job_tree) < expires);
  check_ends(run, 76);
  lock_server.thaw();
}

TEST_CASE("main job: a compressed dump of some hundred megabytes under one lock", "[server][safety]") {
  const Warehouse warehouse;
  two_cron_lines_at_the_same_moment(warehouse);
  connection_killed_under_the_dump(warehouse);
  server_gone_for_longer_than_the_ttl(warehouse);
}

}  // namespace
}  // namespace dblock::test
