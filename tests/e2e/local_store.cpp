// The embedded store as its users meet it: where it is, who may use it, what it refuses.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "support/dblock.hpp"
#include "support/local_file.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

namespace fs = std::filesystem;

const Words k_hello = run_words("hello", {}, {"printenv", "DBLOCK_KEY"});

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777U;
}

// Nobody but the owner may read anything of a store.
void check_private(const std::string& file) {
  const std::string directory = fs::path(file).parent_path();
  CHECK(mode_of(directory) == 0700);
  CHECK(mode_of(file) == 0600);
  for (const auto& entry : fs::directory_iterator(directory)) {
    INFO(entry.path());
    CHECK(mode_of(entry.path()) == 0600);
  }
}

TEST_CASE("an ordinary user's --local store is made on first use, private, below HOME", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  for (const char* mask : {"0", "022", "077"}) {
    const UsersHome home;
    auto spec = home.spawn({"--local", "run", "--key", "hello", "--", "printenv", "DBLOCK_KEY"});
    spec.argv.insert(spec.argv.begin(),
                     {"/bin/sh", "-c", std::string("umask ") + mask + "; exec \"$@\"", "sh"});
    const auto finished = run_program(spec);
    INFO(mask << ": " << finished.err);
    CHECK(finished.exit == exited(0));
    CHECK(finished.out == "hello\n");
    CHECK(finished.err.empty());
    check_private(home.file(".local/state/dblock/locks.db"));
  }
}

TEST_CASE("XDG_STATE_HOME moves the --local store and a relative one does not count", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  const Words words{"--local", "run", "--key", "hello", "--", "true"};
  CHECK(run_program(home.spawn(words, {"XDG_STATE_HOME=" + home.file("elsewhere")})).exit == exited(0));
  check_private(home.file("elsewhere/dblock/locks.db"));
  CHECK_FALSE(fs::exists(home.file(".local")));
  CHECK(run_program(home.spawn(words, {"XDG_STATE_HOME=relative"})).exit == exited(0));
  CHECK_FALSE(fs::exists(home.file("relative")));
  check_private(home.file(".local/state/dblock/locks.db"));
}

TEST_CASE("root's --local store is in /var/lib whatever HOME and XDG_STATE_HOME say", "[local]") {
  DBLOCK_NEEDS(why_no_mount_namespace());
  const TempDir home;
  const auto finished = in_mount_namespace(
      "mount -t tmpfs -o mode=755 tmpfs /var/lib\n"
      "HOME=" +
      home.path() + " XDG_STATE_HOME=" + home.path() +
      " $DBLOCK --local run --key k -- true\n"
      "stat -c '%a %n' /var/lib/dblock /var/lib/dblock/locks.db\n"
      "$DBLOCK --local inspect --all\n");
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(finished.out.starts_with("700 /var/lib/dblock\n600 /var/lib/dblock/locks.db\n"));
  CHECK(says(finished.out, "/var/lib/dblock/locks.db"));  // inspect's header
  CHECK(fs::is_empty(home.path()));
}

TEST_CASE("flag and variable and configuration file mean the same --local store", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  REQUIRE(run_program(home.spawn({"--local", "acquire", "--key", "k", "--ttl", "60s"})).exit == exited(0));
  const Words again{"acquire", "--key", "k", "--ttl", "60s"};
  CHECK(run_program(home.spawn(again, {"DBLOCK_LOCAL=1"})).exit == exited(75));
  fs::create_directory(home.file("cfg"));
  write_file(home.file("cfg/dblock.conf"), "local = yes\n");
  CHECK(run_program(home.spawn(again, {"XDG_CONFIG_HOME=" + home.file("cfg")})).exit == exited(75));
  const Words after{"acquire", "--key", "k", "--ttl", "60s", "--local"};
  CHECK(run_program(home.spawn(after)).exit == exited(75));
  const Words by_url{
      "--db", "sqlite:" + home.file(".local/state/dblock/locks.db"), "acquire", "--key", "k", "--ttl", "60s"};
  CHECK(run_program(home.spawn(by_url)).exit == exited(75));
}

TEST_CASE("nothing configured is 78, names the ways to configure, and is never local unasked", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  for (int round = 0; round < 2; ++round) {  // the second time with a local store that is there
    for (const Words& words : {k_hello, Words{"inspect"}, Words{"acquire", "--key", "k", "--ttl", "5s"}}) {
      const auto finished = run_program(home.spawn(words));
      INFO(finished.err);
      CHECK(finished.exit == exited(78));
      CHECK(finished.out.empty());
      CHECK(ends_with_exit_line(finished.err, 78));
      CHECK(says(finished.err, "DBLOCK_DB"));
      CHECK(says(finished.err, "[dblock]"));
      CHECK(says(finished.err, "--local"));
    }
    if (round == 0) CHECK(fs::is_empty(home.path()));
    REQUIRE(run_program(home.spawn({"--local", "run", "--key", "k", "--", "true"})).exit == exited(0));
  }
  CHECK(run_program(home.spawn(k_hello, {"DBLOCK_LOCAL=0"})).exit == exited(78));
}

TEST_CASE("db with local is 78, and of two places the stronger wins", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  const std::string nowhere = "mysql://app@127.0.0.1:1/d";
  const auto both = run_program(home.spawn({"--db", nowhere, "--local", "run", "--key", "k", "--", "true"}));
  CHECK(both.exit == exited(78));
  CHECK(says(both.err, "--local"));
  CHECK(says(both.err, "--db"));
  const auto variables =
      run_program(home.spawn(run_words("k", {}, {"true"}), {"DBLOCK_DB=" + nowhere, "DBLOCK_LOCAL=1"}));
  CHECK(variables.exit == exited(78));
  CHECK(fs::is_empty(home.path()));
  CHECK(run_program(home.spawn({"--db", nowhere, "inspect"}, {"DBLOCK_LOCAL=1"})).exit == exited(69));
  CHECK(fs::is_empty(home.path()));
  CHECK(run_program(home.spawn({"--local", "inspect"}, {"DBLOCK_DB=" + nowhere})).exit == exited(0));
}

TEST_CASE("a path is taken as it is, and a relative one from where dblock was started", "[local]") {
  const TempDir directory;
  for (const std::string name : {"with space", "100%25", "what?mode=memory", "a#b&c=d", "ключ", "-"}) {
    Spawn spec;
    spec.argv = {dblock_binary(), "--db", "sqlite:" + name + "/l.db", "run", "--key", "k", "--",
                 "sleep",         "0.01"};
    spec.cwd = directory.path();
    const auto finished = run_program(spec);
    INFO(name << ": " << finished.err);
    CHECK(finished.exit == exited(0));
    CHECK(mode_of(directory.file(name) + "/l.db") == 0600);
  }
}

TEST_CASE("a store in memory or without a name is refused", "[local]") {
  for (const char* url : {"sqlite::memory:", "sqlite:"}) {
    const auto finished = dblock_bare(run_words("k", {}, {"true"}), {std::string("DBLOCK_DB=") + url});
    INFO(finished.err);
    CHECK(finished.exit == exited(78));
    CHECK(ends_with_exit_line(finished.err, 78));
  }
}

TEST_CASE("help and the head of inspect say that the locks guard this host only", "[local]") {
  CHECK(says(dblock_bare({"--help"}).out, "this host only"));
  const Database database;
  const auto table = dblock(database, {"inspect"});
  INFO(table.out);
  CHECK(says(lines(table.out).at(0), "this host only"));
  CHECK(says(lines(table.out).at(0), database.url().substr(7)));
}

TEST_CASE("inspect makes no store where there is none yet", "[local]") {
  const TempDir directory;
  const auto finished = dblock_bare({"--db", "sqlite:" + directory.file("l.db"), "inspect", "--json"});
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(says(finished.out, "\"locks\":[]"));
}

// ---- Refusals

// Every subcommand is 78 with the path in its message and `reason` in words; returns the last message.
std::string check_refused(const std::string& path, const std::string& reason) {
  std::string err;
  for (const Words& words :
       {run_words("k", {"--wait", "30s"}, {"touch", path + ".ran"}),
        Words{"acquire", "--key", "k", "--ttl", "5s"}, Words{"renew", "--key", "k", "--owner", "x"},
        Words{"release", "--key", "k", "--owner", "x"}, Words{"inspect"}, Words{"reap"}, Words{"migrate"}}) {
    const auto before = std::chrono::steady_clock::now();
    const auto finished = dblock_bare(words, {"DBLOCK_DB=sqlite:" + path});
    INFO(words[0] << ": " << finished.exit << ": " << finished.err);
    CHECK(finished.exit == exited(78));
    CHECK(finished.out.empty());
    CHECK(ends_with_exit_line(finished.err, 78));
    CHECK(says(finished.err, path));
    CHECK(says(finished.err, reason));
    CHECK(std::chrono::steady_clock::now() - before < 5s * slowness());  // waiting would not help
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

// A store that is all in its file and not in the log.
void make_store(const std::string& path) {
  REQUIRE(dblock_bare({"acquire", "--key", "k", "--ttl", "60s"}, {"DBLOCK_DB=sqlite:" + path}).exit ==
          exited(0));
  sqlite_sql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
}

std::size_t first_page(const std::string& path) {
  return std::stoul(sqlite_value(path, "PRAGMA page_size"));
}

TEST_CASE("what is no file is refused", "[local]") {
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

TEST_CASE("a garbage file is refused and left as it is", "[local]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  for (const std::string& garbage :
       {std::string("not a database\n"), std::string(20'000, 'x'), std::string("\0", 1)}) {
    write_file(path, garbage, 0600);
    check_refused_untouched(path, "");
  }
}

TEST_CASE("a store whose pages were overwritten is refused and left as it is", "[local]") {
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

TEST_CASE("a store truncated to nothing is refused and not made anew", "[local]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  REQUIRE(dblock_bare({"acquire", "--key", "k", "--ttl", "60s"}, {"DBLOCK_DB=sqlite:" + path}).exit ==
          exited(0));
  REQUIRE(fs::exists(path + "-wal"));
  fs::resize_file(path, 0);
  check_refused(path, "truncated");
  CHECK(fs::file_size(path) == 0);
}

TEST_CASE("a store truncated in the middle is refused", "[local]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  make_store(path);
  fs::resize_file(path, first_page(path));
  check_refused_untouched(path, "");
}

TEST_CASE("a store removed but for its log is refused", "[local]") {
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  REQUIRE(dblock_bare({"acquire", "--key", "k", "--ttl", "60s"}, {"DBLOCK_DB=sqlite:" + path}).exit ==
          exited(0));
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

TEST_CASE("another program's database is refused and left as it is", "[local]") {
  const TempDir directory;
  for (const char* version : {"0", "1", "7"}) {
    const std::string path = directory.file(std::string("v") + version);
    write_file(path, "", 0600);
    sqlite_sql(path, "CREATE TABLE bookmarks (url TEXT)");
    sqlite_sql(path, std::string("PRAGMA user_version = ") + version);
    check_refused_untouched(path, "");
    CHECK_FALSE(fs::exists(path + "-wal"));
  }
}

TEST_CASE("another user's store is refused, by root too", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  const std::string path = home.file("locks.db");
  make_store(path);  // by root
  const auto theirs = run_program(home.spawn({"--db", "sqlite:" + path, "inspect"}));
  INFO(theirs.err);
  CHECK(theirs.exit == exited(78));
  CHECK(says(theirs.err, "another user"));
  const UsersHome other;
  REQUIRE(run_program(other.spawn({"--local", "acquire", "--key", "k", "--ttl", "60s"})).exit == exited(0));
  check_refused(other.file(".local/state/dblock/locks.db"), "another user");
}

TEST_CASE("an unwritable directory is refused with the reason", "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  fs::permissions(home.path(), fs::perms(0500));
  for (const char* name : {"locks.db", "below/locks.db"}) {
    const auto finished =
        run_program(home.spawn({"--db", "sqlite:" + home.file(name), "run", "--key", "k", "--", "true"}));
    INFO(finished.err);
    CHECK(finished.exit == exited(78));
    CHECK(ends_with_exit_line(finished.err, 78));
    CHECK(says(finished.err, home.path()));
    CHECK(says(finished.err, "Permission denied"));
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
  INFO(finished.err);
  CHECK(finished.exit == exited(78));
  CHECK(ends_with_exit_line(finished.err, 78));
  CHECK(says(finished.err, path));
}

TEST_CASE("a network file system is refused", "[local]") {
  DBLOCK_NEEDS(why_no_preload());
  const TempDir directory;
  const std::string path = directory.file("locks.db");
  const auto on = [&](const char* type) {
    return dblock_bare(run_words("k", {}, {"true"}),
                       {"DBLOCK_DB=sqlite:" + path, std::string("FAKE_FS_TYPE=") + type,
                        "LD_PRELOAD=" + fake_fstatfs_library()});
  };
  for (const char* type : {"0x6969" /* NFS */, "0xff534d42" /* CIFS */, "0xfe534d42" /* SMB2 */}) {
    const auto finished = on(type);
    INFO(type << finished.err);
    CHECK(finished.exit == exited(78));
    CHECK(ends_with_exit_line(finished.err, 78));
    CHECK(says(finished.err, "network file system"));
    CHECK(says(finished.err, path));
  }
  CHECK(on("0xef53" /* ext4 */).exit == exited(0));
}

}  // namespace
}  // namespace dblock::test
