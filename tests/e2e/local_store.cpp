// The embedded store as its users meet it: where it is and who may use it.
#include <sys/stat.h>

#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/local_file.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

namespace fs = std::filesystem;

const Words k_hello = run_words("hello", {}, {"printenv", "DBLOCK_KEY"});

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
  for (const char* mask : {"0", "022", "077", "277", "777"}) {
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

TEST_CASE("a --local store below another user's HOME or XDG_STATE_HOME is refused and the variable named",
          "[local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome own;
  const TempDir strange;
  const Words words{"--local", "run", "--key", "k", "--", "true"};
  for (const std::string name : {"HOME", "XDG_STATE_HOME"}) {
    Spawn spec = own.spawn(words);
    spec.argv.insert(spec.argv.begin() + 2, name + "=" + strange.path());
    check_ended(run_program(spec), 78,
                {"Permission denied", "; " + name + " names another user's directory"});
  }
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
      check_ended(finished, 78, {"DBLOCK_DB", "[dblock]", "/etc/dblock.conf", "--local"});
      CHECK(finished.out.empty());
    }
    if (round == 0) CHECK(fs::is_empty(home.path()));
    REQUIRE(run_program(home.spawn({"--local", "run", "--key", "k", "--", "true"})).exit == exited(0));
  }
  CHECK(run_program(home.spawn(k_hello, {"DBLOCK_LOCAL=0"})).exit == exited(78));
}

TEST_CASE("db with local is 78, and of two places the stronger wins", "[local][asan-local]") {
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

TEST_CASE("a path is taken as it is, and a relative one from where dblock was started",
          "[local][asan-local]") {
  const TempDir directory;
  for (const std::string name : {"with space", "100%25", "what?mode=memory", "a#b&c=d", "ключ", "-"}) {
    fs::create_directory(directory.file(name));
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

TEST_CASE("a mistyped path makes no directories: it is 78 and named, by doctor too", "[local]") {
  const TempDir directory;
  const std::string url = "sqlite:" + directory.file("no/such/locks.db");
  for (const Words& words : {run_words("k", {}, {"true"}), Words{"inspect"}, Words{"doctor"}}) {
    const auto finished = dblock_at(url, words);
    INFO(finished.out << finished.err);
    CHECK(finished.exit == exited(78));
    CHECK(says(finished.out + finished.err, "there is no directory " + directory.file("no/such")));
  }
  CHECK_FALSE(fs::exists(directory.file("no")));
}

TEST_CASE("a store in memory or without a name is refused", "[local]") {
  for (const char* url : {"sqlite::memory:", "sqlite:"}) {
    const auto finished = dblock_at(url, run_words("k", {}, {"true"}));
    check_ended(finished, 78);
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

}  // namespace
}  // namespace dblock::test
