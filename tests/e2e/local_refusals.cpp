// What the embedded store refuses, and that it leaves what it refuses as it is.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/local_file.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Every subcommand is 78 with the path in its message and `reason` in words; returns the last message.
std::string check_refused(const std::string& path, const std::string& reason) {
  std::string err;
  for (const Words& words :
       {run_words("k", {"--wait", "1h"}, {"touch", path + ".ran"}),
        Words{"acquire", "--key", "k", "--ttl", "5s"}, Words{"renew", "--key", "k", "--owner", "x"},
        Words{"release", "--key", "k", "--owner", "x"}, Words{"inspect"}, Words{"reap"}, Words{"migrate"}}) {
    const auto finished = dblock_at("sqlite:" + path, words);  // waiting would not help
    INFO(words[0] << ": " << finished.exit << ": " << finished.err);
    check_ended(finished, 78, {path, reason});
    CHECK(finished.out.empty());
    err = finished.err;
  }
  CHECK_FALSE(fs::exists(path + ".ran"));
  return err;
}

// … and the file's bytes are what they were.
void check_refused_untouched(const std::string& path, const std::string& reason) {
  const std::string before = read_file(path);
  check_refused(path, reason);
  CHECK(read_file(path) == before);
}

// A store with a lease, which is in its log yet.
void make_store_with_log(const std::string& path) {
  REQUIRE(dblock_at("sqlite:" + path, {"acquire", "--key", "k", "--ttl", "60s"}).exit == exited(0));
}

// … that is all in its file and not in the log.
void make_store(const std::string& path) {
  make_store_with_log(path);
  sqlite_sql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
}

std::size_t first_page(const std::string& path) {
  return std::stoul(sqlite_value(path, "PRAGMA page_size"));
}

TEST_CASE("what is no file is refused", "[local][safety]") {
  const TempDir directory;
  fs::create_directory(directory.file("directory"));
  check_refused(directory.file("directory"), "directory");
  make_store(directory.file("real"));
  fs::create_symlink(directory.file("real"), directory.file("link"));
  check_refused(directory.file("link"), "symbolic link");
  fs::create_symlink(directory.file("nowhere"), directory.file("dangling"));
  check_refused(directory.file("dangling"), "symbolic link");
  CHECK_FALSE(fs::exists(directory.file("nowhere")));
  REQUIRE(::mkfifo(directory.file("pipe").c_str(), 0600) == 0);
  check_refused(directory.file("pipe"), "regular file");
  fs::create_hard_link(directory.file("real"), directory.file("second"));
  check_refused(directory.file("second"), "hard links");
}

TEST_CASE("a garbage file is refused and left as it is", "[local][asan-local]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  for (const std::string& garbage :
       {std::string("not a database\n"), std::string(20'000, 'x'), std::string("\0", 1)}) {
    write_file(path, garbage, 0600);
    check_refused_untouched(path, "");
  }
}

TEST_CASE("a store whose pages were overwritten is refused and left as it is",
          "[local][safety][asan-local]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  make_store(path);
  std::string bytes = read_file(path);
  const std::size_t page = first_page(path);
  REQUIRE(bytes.size() > page);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(page), bytes.end(), '\xa5');
  write_file(path, bytes, 0600);
  check_refused_untouched(path, "");
}

TEST_CASE("a store truncated to nothing is refused and not made anew", "[local][safety]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  make_store_with_log(path);
  REQUIRE(fs::exists(path + "-wal"));
  fs::resize_file(path, 0);
  check_refused(path, "truncated");
  CHECK(fs::file_size(path) == 0);
}

TEST_CASE("a store truncated in the middle is refused", "[local][safety]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  make_store(path);
  fs::resize_file(path, first_page(path));
  check_refused_untouched(path, "");
}

TEST_CASE("a store removed but for its log is refused", "[local][safety]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  make_store_with_log(path);
  fs::remove(path);
  check_refused(path, "removed");
}

TEST_CASE("a newer schema is refused with both versions named", "[local]") {
  Database database;
  const auto known = database.schema_version();
  database.set_schema_version(999);
  const std::string err = check_refused(database.url().substr(7), "newer");
  CHECK(says(err, "999"));
  CHECK(says(err, std::to_string(known)));
  CHECK(database.schema_version() == 999);
}

TEST_CASE("another program's database is refused and left as it is", "[local][asan-local]") {
  const TempDir directory;
  for (const char* version : {"0", "1", "7"}) {
    const std::string path = directory.file(std::string("v") + version);
    write_file(path, "", 0600);
    sqlite_sql(path, "CREATE TABLE bookmarks (url TEXT)");
    sqlite_sql(path, std::string("PRAGMA user_version = ") + version);
    check_refused_untouched(path, "");
    CHECK_FALSE(fs::exists(path + "-wal"));
    CHECK_FALSE(fs::exists(path + "-seen"));
  }
}

TEST_CASE("another user's store is refused, by root too", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  const TempDir of_root;
  fs::permissions(of_root.path(), static_cast<fs::perms>(0755));
  const std::string path = of_root.file("locks.db");
  make_store(path);
  const auto theirs = run_program(home.spawn({"--db", "sqlite:" + path, "inspect"}));
  INFO(theirs.err);
  CHECK(theirs.exit == exited(78));
  CHECK(says(theirs.err, "another user"));
  const UsersHome other;
  REQUIRE(run_program(other.spawn({"--local", "acquire", "--key", "k", "--ttl", "60s"})).exit == exited(0));
  check_refused(other.file(".local/state/dblock/locks.db"), "another user");
}

TEST_CASE("a store is refused while a file beside it is not its owner's alone", "[local][safety]") {
  for (const char* suffix : {"-wal", "-shm", "-seen", "-line", "-journal"}) {
    const TempDir directory;
    const std::string path = directory.file("locks.db");
    make_store(path);
    const std::string beside = path + suffix;
    write_file(directory.file("other"), "x", 0600);
    CAPTURE(suffix);
    fs::remove(beside);
    fs::create_hard_link(directory.file("other"), beside);
    CHECK(dblock_at("sqlite:" + path, {"inspect"}).exit == exited(78));
    fs::remove(beside);
    fs::create_symlink(directory.file("other"), beside);
    check_refused(path, beside + " beside it is not this user's alone");
    CHECK(read_file(directory.file("other")) == "x");
  }
}

TEST_CASE("a store is refused while a file beside it is another user's", "[local][safety]") {
  DBLOCK_NEEDS(why_no_other_user());
  for (const char* suffix : {"-wal", "-shm", "-seen", "-line", "-journal"}) {
    const TempDir directory;
    const std::string path = directory.file("locks.db");
    make_store(path);
    const std::string beside = path + suffix;
    if (!fs::exists(beside)) write_file(beside, "", 0600);
    REQUIRE(::chown(beside.c_str(), k_nobody, k_nobody) == 0);
    check_refused(path, beside + " beside it is not this user's alone");
  }
}

TEST_CASE("a directory that others may write is refused, with the sticky bit too", "[local]") {
  const TempDir directory;
  for (const mode_t mode : {0777U, 01777U, 0770U, 01770U, 0702U}) {
    const std::string place = directory.file("m" + std::to_string(mode));
    fs::create_directory(place);
    REQUIRE(::chmod(place.c_str(), mode) == 0);
    const std::string err = check_refused(place + "/locks.db", "other users may write its directory");
    CHECK(says(err, "chmod go-w " + place));
    CHECK_FALSE(fs::exists(place + "/locks.db"));
  }
}

TEST_CASE("a directory whose owner could swap the store is refused", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  const std::string err = check_refused(home.file("locks.db"), "belongs to another user");
  CHECK(says(err, "--db sqlite:PATH"));
  CHECK_FALSE(fs::exists(home.file("locks.db")));
}

TEST_CASE("a store below a directory in which other users could swap its directory is refused",
          "[local][safety]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  const TempDir directory;
  const std::string open = directory.file("open");
  const auto make = [](const std::string& place, mode_t mode) {
    fs::create_directory(place);
    REQUIRE(::chmod(place.c_str(), mode) == 0);
  };
  make(home.file("mine"), 0700);
  const std::string theirs = "the directory " + home.path() + " belongs to another user (uid 65534)";
  check_refused(home.file("mine/locks.db"), theirs);
  fs::create_symlink(home.file("mine"), directory.file("link"));
  check_refused(directory.file("link/locks.db"), theirs);
  CHECK_FALSE(fs::exists(home.file("mine/locks.db")));

  make(open, 0777);
  make(open + "/mine", 0700);
  CHECK(says(check_refused(open + "/mine/locks.db", "other users may write the directory " + open),
             "chmod o-w " + open));
  REQUIRE(::chown(open.c_str(), 0, 1) == 0);  // daemon's
  REQUIRE(::chmod(open.c_str(), 0770) == 0);
  CHECK(says(check_refused(open + "/mine/locks.db", "other users may write the directory " + open),
             "chmod g-w " + open));
  CHECK_FALSE(fs::exists(open + "/mine/locks.db"));

  REQUIRE(::chmod(open.c_str(), 01777) == 0);
  fs::create_symlink(open + "/mine", open + "/link");
  REQUIRE(::lchown((open + "/link").c_str(), 54321, 54321) == 0);
  check_refused(open + "/link/locks.db", "the link " + open + "/link belongs to another user (uid 54321)");
}

TEST_CASE("a store lies where nobody else can swap its directory, whatever is above", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home(54322);  // with the group of the same number
  for (const mode_t mode : {01777U, 03777U, 0775U}) {
    CAPTURE(mode);
    REQUIRE(::chmod(home.path().c_str(), mode) == 0);
    const auto ended = run_program(home.spawn({"--local", "run", "--key", "k", "--", "true"}));
    INFO(ended.err);
    CHECK(ended.exit == exited(0));
  }
  const TempDir directory;
  const std::string common = directory.file("common");
  fs::create_directory(common);
  REQUIRE(::chown(common.c_str(), 0, 54323) == 0);  // a group of nobody's
  fs::create_directory(common + "/mine");
  for (const mode_t mode : {01777U, 01770U, 02755U}) {
    REQUIRE(::chmod(common.c_str(), mode) == 0);
    CHECK(dblock_at("sqlite:" + common + "/mine/locks.db", {"inspect"}).exit == exited(0));
  }
}

TEST_CASE("a sandbox that hides who owns a directory keeps no store from its user", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home(54322);
  Spawn spec;
  spec.user = home.user();
  spec.cwd = home.path();
  const TempDir of_root;  // which the sandbox shows as of the overflow user
  fs::permissions(of_root.path(), fs::perms(0755));
  fs::create_directory(of_root.file("mine"));
  REQUIRE(::chown(of_root.file("mine").c_str(), home.user(), home.user()) == 0);
  spec.argv = {"unshare", "--user", "--map-root-user", "true"};
  const auto sandbox = run_program(spec);
  DBLOCK_NEEDS(sandbox.exit == exited(0) ? "" : "no user namespace of one's own: " + sandbox.err);
  spec.argv = {"env",
               "HOME=" + home.path(),
               "unshare",
               "--user",
               "--map-root-user",
               home.binary(),
               "--db",
               "sqlite:" + of_root.file("mine/locks.db"),
               "run",
               "--key",
               "k",
               "--",
               "true"};
  const auto ended = run_program(spec);
  INFO(ended.err);
  CHECK(ended.exit == exited(0));
}

TEST_CASE("a store whose log was removed is refused, and nothing is granted", "[local][safety][asan-local]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  make_store_with_log(path);
  fs::remove(path + "-wal");
  fs::remove(path + "-shm");
  check_refused(path, "changes made since this machine was started are missing");
}

TEST_CASE("a file that is mounted without those beside it is refused", "[local][safety]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  const TempDir directory;
  make_store(directory.file("locks.db"));
  write_file(directory.file("alone.db"), "", 0600);
  const auto finished = in_mount_namespace("cd " + directory.path() +
                                           "\nmount --bind locks.db alone.db\n"
                                           "$DBLOCK --db sqlite:alone.db run -n --key k -- echo granted\n");
  INFO(finished.err);
  CHECK(finished.out.empty());
  CHECK(says(finished.err, "mount its directory"));
}

TEST_CASE("time namespaces share the host's leases", "[local][safety]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  DBLOCK_NEEDS(run_program({.argv = {"unshare", "--time", "--boottime", "1000", "true"}}).exit == exited(0)
                   ? ""
                   : "no time namespace of one's own");
  const TempDir directory;
  const auto finished = in_mount_namespace(
      "export DBLOCK_DB=sqlite:" + directory.file("locks.db") +
      "\n$DBLOCK acquire --key k --ttl 60s >/dev/null\n"
      "code=0; unshare --time --boottime 1000 $DBLOCK run -n --key k -- true || code=$?; echo $code\n"
      "unshare --time --boottime 100000 $DBLOCK acquire --key l --ttl 60s >/dev/null\n"
      "$DBLOCK inspect --key l --json | grep -o '\"remaining_ms\":5[0-9][0-9][0-9][0-9]' | wc -l\n");
  INFO(finished.err);
  CHECK(finished.out == "75\n1\n");
}

TEST_CASE("too few descriptors or too small files end in words, never in a core", "[local]") {
  DBLOCK_NEEDS(why_no_preload());  // sanitizers, which rule that out, need descriptors of their own
  const Database database;
  REQUIRE(dblock(database, {"run", "--key", "k", "--", "true"}).exit == exited(0));
  const auto limited = [&](const std::string& limit, const Words& words) {
    return run_program(after("ulimit " + limit, dblock_spawn(database, words)));
  };
  // A key each: the guardian has no more descriptors than dblock, so a lease may be left to expire.
  for (int n = 6; n < 24; ++n) {
    const auto finished =
        limited("-n " + std::to_string(n), {"run", "--key", "k" + std::to_string(n), "--", "true"});
    INFO(n << ": " << finished.exit << " " << finished.err);
    CHECK((finished.exit == exited(0) || finished.exit == exited(69) || finished.exit == exited(70) ||
           finished.exit == exited(78)));
    if (finished.exit != exited(0)) CHECK(says(finished.err, "dblock: exit "));
    CHECK_FALSE(says(finished.err, "by hand"));
  }
  const auto small = limited("-f 1", {"run", "--key", "k", "--", "true"});
  INFO(small.exit << " " << small.err);
  CHECK(small.exit == exited(69));
  CHECK(says(small.err, "ulimit -f"));
}

TEST_CASE("an unwritable directory is refused with the reason", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  fs::permissions(home.path(), fs::perms(0500));
  for (const Words& store : {Words{"--db", "sqlite:" + home.file("locks.db")}, Words{"--local"}}) {
    const auto finished = run_program(home.spawn(with(store, run_words("k", {}, {"true"}))));
    check_ended(finished, 78, {home.path(), "Permission denied"});
  }
}

TEST_CASE("a file that its owner may not write is refused", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  const Words words{"--local", "run", "--key", "k", "--", "true"};
  REQUIRE(run_program(home.spawn(words)).exit == exited(0));
  const std::string path = home.file(".local/state/dblock/locks.db");
  fs::permissions(path, fs::perms(0400));
  const auto finished = run_program(home.spawn(words));
  check_ended(finished, 78, {path});
}

TEST_CASE("a network file system is refused", "[local][safety]") {
  DBLOCK_NEEDS(why_no_preload());
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  const auto on = [&](const char* type) {
    return dblock_at("sqlite:" + path, run_words("k", {}, {"true"}),
                     refusing(std::string("FAKE_FS_TYPE=") + type));
  };
  for (const char* type : {"0x6969" /* NFS */, "0xff534d42" /* CIFS */, "0xfe534d42" /* SMB2 */}) {
    const auto finished = on(type);
    INFO(type << finished.err);
    check_ended(finished, 78, {"network file system", path});
  }
  CHECK(on("0xef53" /* ext4 */).exit == exited(0));
}

TEST_CASE("what the system refuses to tell of the store's files is said, and so is a disk that fails",
          "[local]") {
  DBLOCK_NEEDS(why_no_preload());
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  make_store(path);
  struct Refusal {
    const char* call;
    int code;
    const char* said;
  };
  for (const auto& [call, code, said] :
       std::vector<Refusal>{{"realpath", 78, "cannot enter its directory: Input/output error"},
                            {"stat", 78, "cannot look at its directory: Input/output error"},
                            {"fstatfs", 78, "cannot look at it: Input/output error"},
                            {"pread", 69, "disk I/O error; is the disk in order"}}) {
    CAPTURE(call);
    check_ended(dblock_at("sqlite:" + path, {"inspect"}, failing(call, EIO)), code, {path, said});
  }
}

TEST_CASE("a file system without shared pages, which a store's log needs, is no place for a store",
          "[local]") {
  DBLOCK_NEEDS(why_no_preload());
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  const auto shared_pages_fail = failing("mmap", ENODEV);
  const Words acquire{"acquire", "--key", "k", "--ttl", "1m"};
  check_ended(dblock_at("sqlite:" + path, acquire, shared_pages_fail), 69, {path, "disk I/O error"});
  REQUIRE(dblock_at("sqlite:" + path, acquire).exit == exited(0));
  check_ended(dblock_at("sqlite:" + path, {"inspect"}, shared_pages_fail), 69, {path, "disk I/O error"});
}

TEST_CASE("without this boot's id, which tells old leases from new ones, the store is not used", "[local]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  const Database database;
  const auto finished = in_mount_namespace(
      "mount --bind /dev/null /proc/sys/kernel/random/boot_id\nexec \"$DBLOCK\" run -k k true",
      {"DBLOCK_DB=" + database.url()});
  check_ended(finished, 78, {"cannot read this boot's id in /proc/sys/kernel/random/boot_id"});
}

TEST_CASE("a store whose tables were changed by hand is refused and left as it is", "[local]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  make_store(path);
  sqlite_sql(path, "ALTER TABLE dblock_lock RENAME COLUMN token TO mark");
  sqlite_sql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
  const std::string before = read_file(path);
  check_ended(dblock_at("sqlite:" + path, {"inspect"}), 78,
              {path, "its tables are not as dblock makes them (no such column"});
  CHECK(read_file(path) == before);
}

}  // namespace
}  // namespace dblock::test
