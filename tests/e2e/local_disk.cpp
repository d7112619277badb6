// The embedded store's file in trouble: a full disk, a writer that does not let go, a store removed under a
// job.
#include <algorithm>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/local_file.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

namespace fs = std::filesystem;

// A script that has `disk`, a file system of 400 KiB, and can fill it and make room again.
std::string with_small_disk(const TempDir& disk) {
  return "disk=" + disk.path() +
         "\n"
         "export DBLOCK_DB=sqlite:$disk/d/locks.db\n"
         "mount -t tmpfs -o size=400k tmpfs $disk && mkdir -m 700 $disk/d\n"
         "fill() { dd if=/dev/zero of=$disk/fill bs=1k 2>/dev/null || true; }\n"
         "room() { rm $disk/fill; }\n"
         "token() { $DBLOCK run --key \"$1\" -- printenv DBLOCK_TOKEN; }\n";
}

TEST_CASE("a full disk is 69 in words, and with room again the store goes on", "[local][safety]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  const TempDir disk, copy;
  // The log may have room for some changes within its file; each new key adds a row, and after it there may
  // still be room for changes of old ones.
  const auto finished = in_mount_namespace(with_small_disk(disk) +
                                           "echo before $(token k)\n"
                                           "token other >&2\n"
                                           "fill\n"
                                           "code=0; i=0\n"
                                           "while [ $code = 0 ] && [ $i -lt 500 ]; do i=$((i+1)); $DBLOCK "
                                           "run --key new$i -- true || code=$?; done\n"
                                           "echo full $code\n"
                                           "while $DBLOCK run --key other -- true; do :; done\n"
                                           "$DBLOCK run --key k -- touch $disk/ran || true\n"
                                           "test ! -e $disk/ran\n"
                                           "room\n"
                                           "echo after $(token k)\n"
                                           "cp $disk/d/* " +
                                           copy.path() + "\n");
  INFO(finished.out << finished.err);
  CHECK(finished.exit == exited(0));
  const auto said = lines(finished.out);
  REQUIRE(said.size() == 3);
  CHECK(said[1] == "full 69");
  CHECK(says(finished.err, "no space"));
  CHECK(says(finished.err, disk.path()));
  CHECK(std::stoull(said[2].substr(6)) > std::stoull(said[0].substr(7)));
  CHECK(sqlite_value(copy.file("locks.db"), "PRAGMA integrity_check") == "ok");
}

TEST_CASE("a store cannot be made on a full disk: 69, and with room it can", "[local]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  const TempDir disk;
  const auto finished = in_mount_namespace(with_small_disk(disk) +
                                           "fill\n"
                                           "for i in 1 2; do token k || echo full $?; done\n"
                                           "room\n"
                                           "token k >&2 && echo works\n"
                                           "mount -t tmpfs -o mode=700,nr_inodes=1 tmpfs $disk/d\n"
                                           "token k || echo no file $?\n");
  INFO(finished.err);
  CHECK(finished.out == "full 69\nfull 69\nworks\nno file 69\n");
  CHECK(says(finished.err, "no space is left on its disk; nothing was changed"));
  CHECK(says(finished.err, ": no space is left on its disk. Make room and try again"));
}

TEST_CASE("a disk that fills up under a job ends it with 76 before its lease does, and room saves it",
          "[local][safety]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  const TempDir disk, marks;
  const auto run = [&](const std::string& job) {
    return with_small_disk(disk) + "cd " + marks.path() +
           "; $DBLOCK run --ttl 3s --heartbeat 300ms --kill-grace 300ms --key k -- sh -c 'touch up; " + job +
           "' & job=$!\nwhile [ ! -e " + marks.file("up") + " ]; do sleep 0.02; done\n";
  };
  // The time when the job was last alive, and the end of the lease, in microseconds.
  const auto lost =
      in_mount_namespace(run("while :; do date +%s%6N >alive.new; mv alive.new alive; sleep 0.02; done") +
                         "fill\ncode=0; wait $job || code=$?; echo $code\ncat alive\n"
                         "date -d $($DBLOCK inspect --all --key k --json | sed "
                         "\"s/.*expires_at...\\([^\\\"]*\\).*/\\1/\") +%s%6N\n");
  INFO(lost.out << lost.err);
  const auto said = lines(lost.out);
  REQUIRE(said.size() == 3);
  CHECK(said[0] == "76");
  CHECK(std::stoll(said[1]) < std::stoll(said[2]));
  fs::remove(marks.file("up"));
  const auto saved = in_mount_namespace(run("sleep 6; exit 7") +
                                        "fill; sleep 1; room\ncode=0; wait $job || code=$?; echo $code\n");
  INFO(saved.err);
  CHECK(saved.out == "7\n");
}

TEST_CASE("a disk that fills up does not end a job whose store has set room for its log aside", "[local]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  const TempDir disk, marks;
  const auto kept = in_mount_namespace(
      "disk=" + disk.path() +
      "\nmount -t tmpfs -o size=4m tmpfs $disk; mkdir -m 700 $disk/d\nexport "
      "DBLOCK_DB=sqlite:$disk/d/locks.db\n" +
      "$DBLOCK run --ttl 2s --heartbeat 200ms --kill-grace 200ms --key k -- sh -c 'touch " + marks.path() +
      "/up; sleep 5; exit 7' & job=$!\n" + "while [ ! -e " + marks.path() + "/up ]; do sleep 0.02; done\n" +
      "dd if=/dev/zero of=$disk/fill bs=1k 2>/dev/null || true\n" +
      "dd if=/dev/zero of=$disk/more bs=1k 2>&1 | "
      "grep -o 'No space'\n" +
      "code=0; wait $job || code=$?; echo $code\n"
      "$DBLOCK inspect --all --key k | grep -c 'failed (7)'\n");
  INFO(kept.err);
  CHECK(kept.out == "No space\n7\n1\n");
}

bool has_open(const Process& process, const std::string& file) {
  return std::ranges::any_of(open_files(process.pid()),
                             [&](const std::string& open) { return open.ends_with("-> " + file); });
}

TEST_CASE("a writer in the store is waited for, and no word of it is said", "[local][asan-local]") {
  const Database database;
  REQUIRE(run_true(database, "seen") == exited(0));
  auto writer = std::make_unique<SqliteWriter>(file_of(database));
  std::vector<Process> waiting;
  for (const Words& words : {run_words("seen", {"--wait", "30s"}, {"true"}), run_words("new", {}, {"true"}),
                             Words{"acquire", "--key", "a", "--ttl", "60s"}, Words{"reap"}})
    waiting.emplace_back(dblock_spawn(database, words));
  for (auto& process : waiting) {
    REQUIRE(wait_until([&] { return has_open(process, file_of(database)) || !process.running(); }));
  }
  // Reading needs no leave: a command that begins later is over while those that write still wait.
  CHECK(dblock(database, {"inspect"}).exit == exited(0));
  for (auto& process : waiting) CHECK(process.running());
  writer.reset();
  check_all_succeed(waiting);
  for (const auto& process : waiting) CHECK(process.err().empty());
}

TEST_CASE("a writer that does not let go is 69 in time", "[local][safety]") {
  const Database database;
  const TempDir directory;
  const SqliteWriter writer(file_of(database));
  // As with a server that is silent. The wrong answer would be never.
  const auto finished = dblock(database, run_words("k", {"--ttl", "10s"}, {"touch", directory.file("ran")}));
  check_ended(finished, 69);
  CHECK_FALSE(fs::exists(directory.file("ran")));
}

TEST_CASE("a writer that does not let go for longer than the ttl ends the job before expire_time",
          "[local][safety]") {
  const Database database;
  TreeRun run(database, {"--ttl", "3s", "--heartbeat", "300ms", "--kill-grace", "500ms"});
  const SqliteWriter writer(file_of(database));
  const long long expires = database.expires_micros("k");
  CHECK(run.job_last_seen() < expires);
  check_ends(run, 76);
}

TEST_CASE("a store removed under a running job ends it with 76", "[local][safety]") {
  for (const bool made_anew : {false, true}) {
    const TempDir directory;
    const std::string url = "sqlite:" + directory.file("d/locks.db");
    fs::create_directory(directory.file("d"));
    TreeRun run(url, {"--ttl", "6s", "--heartbeat", "300ms", "--kill-grace", "500ms"});
    fs::remove_all(directory.file("d"));
    // In the new store the lock looks free, and the first to know is the job's own dblock.
    if (made_anew) {
      fs::create_directory(directory.file("d"));
      CHECK(dblock_at(url, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
    }
    check_ends(run, 76);
    CHECK(run.tree().empty());
  }
}

TEST_CASE("a job that ends right after its store was removed does not end as if nothing had been",
          "[local][safety][asan-local]") {
  for (const bool made_anew : {false, true}) {
    const TempDir directory;
    const std::string url = "sqlite:" + directory.file("d/locks.db");
    fs::create_directory(directory.file("d"));
    LiveRun run(url, {"--ttl", "60s"});
    fs::remove_all(directory.file("d"));
    if (made_anew) {
      fs::create_directory(directory.file("d"));
      CHECK(dblock_at(url, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
    }
    run.tell();
    check_ends(run, 76);
    if (made_anew) CHECK(dblock_at(url, {"run", "--key", "k", "--", "true"}).exit == exited(75));
  }
}

}  // namespace
}  // namespace dblock::test
