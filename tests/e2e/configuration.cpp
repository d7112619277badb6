// What counts as configured, and in which order; passwords.
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/proxy.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

std::string option_group(const ServerDatabase& database, const std::string& more = "") {
  return "[dblock]\nsocket = " + database.server().socket + "\ndatabase = " + database.name() + "\n" + more;
}

TEST_CASE("a cron line with nothing but an option file in HOME works", "[server]") {
  ServerDatabase database;
  const TempDir home;
  write_file(home.file(".my.cnf"), option_group(database, "user = app\n"), 0600);
  const auto finished = run_program(
      {.argv = {"env", "-i", "HOME=" + home.path(), "PATH=/usr/bin:/bin", "LOGNAME=root", "SHELL=/bin/sh",
                "/bin/sh", "-c", dblock_binary() + " run --key nightly -- true"}});
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
  CHECK(finished.err.empty());
  CHECK(database.column("nightly", "last_exit_code") == "0");
}

TEST_CASE("the client groups fill in the user but never the server", "[server]") {
  const ServerDatabase database;
  const TempDir directory;
  write_file(directory.file("client.cnf"), "[client]\nsocket = " + database.server().socket +
                                               "\nuser = app\ndatabase = " + database.name() + "\n");
  const auto refused =
      dblock_bare({"--defaults-file", directory.file("client.cnf"), "run", "--key", "k", "--", "true"});
  INFO(refused.err);
  CHECK(refused.exit == exited(78));
  write_file(directory.file("both.cnf"), option_group(database) + "[client]\nuser = app\n");
  CHECK(
      dblock_bare({"--defaults-file", directory.file("both.cnf"), "run", "--key", "k", "--", "true"}).exit ==
      exited(0));
}

TEST_CASE("a group without a database is not a configuration", "[server]") {
  const ServerDatabase database;
  const TempDir directory;
  write_file(directory.file("my.cnf"), "[dblock]\nsocket = " + database.server().socket + "\nuser = app\n");
  CHECK(dblock_bare({"--defaults-file", directory.file("my.cnf"), "inspect"}).exit == exited(78));
}

TEST_CASE("a defaults file that is not there is 78", "[server]") {
  const auto finished = dblock_at(k_no_server, {"--defaults-file", "/nonexistent/my.cnf", "inspect"});
  CHECK(finished.exit == exited(78));
  CHECK(says(finished.err, "/nonexistent/my.cnf"));
}

TEST_CASE("parts of the url win over the option file one by one", "[server]") {
  ServerDatabase database;
  const std::string user = database.account("IDENTIFIED BY 'from-file'");
  const TempDir directory;
  write_file(directory.file("my.cnf"),
             "[client]\nuser = " + user +
                 "\npassword = from-file\n[dblock]\nhost = 127.0.0.1\nport = 1\ndatabase = "
                 "elsewhere\n",
             0600);
  const auto finished =
      dblock_at("mysql://127.0.0.1:" + std::to_string(database.server().port) + "/" + database.name(),
                {"--defaults-file", directory.file("my.cnf"), "run", "--key", "k", "--", "true"});
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
}

TEST_CASE("a flag wins over the environment and that over a configuration file") {
  const Database database;
  const TempDir directory;
  write_file(directory.file("dblock.conf"), "db = " + database.url() + "\n");
  const Words words{"--config", directory.file("dblock.conf"), "inspect"};
  CHECK(dblock_bare(words).exit == exited(0));
  CHECK(dblock_at(k_no_server, words).exit == exited(69));
  CHECK(dblock_at(k_no_server, {"--db", database.url(), "--config", directory.file("dblock.conf"), "inspect"})
            .exit == exited(0));
}

TEST_CASE("the user's configuration file is found and its options apply") {
  const Database database;
  const TempDir directory;
  std::filesystem::create_directory(directory.file("cfg"));
  write_file(directory.file("cfg/dblock.conf"),
             "db = " + database.url() + "\n[run]\nconflict-exit-code = 44\n");
  const Words env{"XDG_CONFIG_HOME=" + directory.file("cfg")};
  REQUIRE(dblock_bare({"acquire", "--key", "k", "--ttl", "60s"}, env).exit == exited(0));
  CHECK(dblock_bare(run_words("k", {}, {"true"}), env).exit == exited(44));
}

TEST_CASE("an unknown option in a configuration file is 78 with file and line") {
  const TempDir directory;
  write_file(directory.file("dblock.conf"), "# fine\nfrobnicate = 1\n");
  const auto finished = dblock_bare({"--config", directory.file("dblock.conf"), "inspect"});
  CHECK(finished.exit == exited(78));
  CHECK(says(finished.err, "dblock.conf"));
  CHECK(says(finished.err, "2"));
}

TEST_CASE("a configuration that somebody is still writing is waited for") {
  const Database database;
  const auto ended = run_program(script_spawn(database.url(),
                                              "(sleep 0.3; echo 'no-wait = yes'; sleep 0.1; echo '[run]') | "
                                              "dblock --config /dev/stdin run --key k -- echo ran"));
  INFO(ended.err);
  CHECK(says(ended.err, "no-wait"));  // which is no option: so it was read
  CHECK(ended.exit == exited(78));
}

TEST_CASE("a configuration that does not come ends the wait for it") {
  const Database database;
  const auto ended = run_program(script_spawn(
      database.url(), "sleep 60 | { dblock --config /dev/stdin inspect; echo $?; pkill -x -P $$ sleep; }"));
  INFO(ended.err);
  CHECK(ended.out == "78\n");
  CHECK(says(ended.err, "was not complete after 10s"));
}

TEST_CASE("a device without end named as a file is refused", "[asan-local]") {
  const Database database;
  for (const Words& words :
       {Words{"--config", "/dev/zero", "inspect"}, Words{"--defaults-file", "/dev/zero", "inspect"},
        Words{"--db", "mysql://u@127.0.0.1:1/d?password-file=/dev/zero", "inspect"}}) {
    const auto ended = dblock_bare(words);
    INFO(ended.err);
    CHECK(ended.exit == exited(78));
    CHECK(says(ended.err, "1 MiB"));
  }
}

TEST_CASE("a configuration file that others may write is not obeyed") {
  const Database database;
  const TempDir directory;
  write_file(directory.file("conf"), "[run]\non-success = touch " + directory.file("ran") + "\n");
  for (const mode_t mode : {0666U, 0602U}) {
    REQUIRE(::chmod(directory.file("conf").c_str(), mode) == 0);
    for (const Words& words : {run_words("k", {}, {"true"}), Words{"doctor"}}) {
      const auto ended = dblock(database, with({"--config", directory.file("conf")}, words));
      INFO(ended.err);
      CHECK(ended.exit == exited(78));
      CHECK(says(ended.err, "may be changed by other users"));
    }
  }
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
}

TEST_CASE("root obeys no configuration file that another user or group may write") {
  DBLOCK_NEEDS(why_no_other_user());
  const Database database;
  const TempDir directory;
  const std::string file = directory.file("conf");
  write_file(file, "[run]\nttl = 1m\n");
  const auto exit_with = [&](uid_t owner, gid_t group, mode_t mode) {
    REQUIRE(::chown(file.c_str(), owner, group) == 0);
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    const auto ended = dblock(database, {"--config", file, "run", "--key", "k", "--", "true"});
    INFO(ended.err);
    if (ended.exit != exited(0)) CHECK(says(ended.err, "may be changed by other users"));
    return ended.exit;
  };
  CHECK(exit_with(0, 0, 0664) == exited(0));
  CHECK(exit_with(0, 1, 0644) == exited(0));
  CHECK(exit_with(0, 1, 0664) == exited(78));
  CHECK(exit_with(1, 0, 0644) == exited(78));
}

// dblock with this HOME and nothing else that says where its files are.
Finished in_home(const std::string& home, const Words& words, uid_t user = 0) {
  Spawn spec;
  spec.argv = with({"env", "-i", "HOME=" + home, "PATH=/usr/bin:/bin"}, words);
  spec.user = user;
  return run_program(spec);
}

TEST_CASE("root obeys no file of a home that another user can change", "[asan-local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const Database database;
  const TempDir of_root;
  const std::string good = of_root.file("good");
  write_file(good, "[run]\non-start = touch " + of_root.file("ran") + "\n[dblock]\nhost = h\n");
  for (const std::string name : {".config/dblock.conf", ".my.cnf"}) {
    for (const std::string kind : {"regular", "link", "link of /proc", "FIFO"}) {
      const UsersHome home;
      std::filesystem::create_directory(home.file(".config"));  // root's own
      const std::string file = home.file(name);
      if (kind == "regular") std::filesystem::copy_file(good, file);
      if (kind == "link") std::filesystem::create_symlink(good, file);
      if (kind == "link of /proc") std::filesystem::create_symlink("/proc/self/cmdline", file);
      if (kind == "FIFO") REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
      CAPTURE(file, kind);
      const Words words{dblock_binary(), "--db", "mysql://u@127.0.0.1:1/d", "inspect"};
      const auto ended = in_home(home.path(), words);
      check_ended(ended, 78, {file + " is refused", "directory " + home.path() + " belongs to another user"});
    }
  }
  CHECK_FALSE(std::filesystem::exists(of_root.file("ran")));
}

// The home of another user with both files, which `user` may not read; or may, when it is `open`.
struct StrangeHome {
  StrangeHome(uid_t owner, bool open) {
    std::filesystem::create_directory(home.file(".config"));
    write_file(home.file(".config/dblock.conf"), "db = mysql://u@127.0.0.1:1/d\n");
    write_file(home.file(".my.cnf"), "[dblock]\nhost = 127.0.0.1\ndatabase = d\n");
    for (const std::string name : {"", ".config", ".config/dblock.conf", ".my.cnf"}) {
      REQUIRE(::chown(home.file(name).c_str(), owner, owner) == 0);
      std::filesystem::permissions(home.file(name), std::filesystem::perms(open ? 0755 : 0700));
    }
  }
  const TempDir home;
};

TEST_CASE("another user's HOME is no reason to refuse what is configured otherwise") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome own;
  for (const auto& [owner, open] :
       {std::pair{uid_t{0}, false}, {uid_t{54321}, false}, {uid_t{54321}, true}}) {
    const StrangeHome strange(owner, open);
    CAPTURE(owner, open);
    const Words words{own.binary(), "--db", "mysql://u@127.0.0.1:1/d", "inspect"};
    check_ended(in_home(strange.home.path(), words, own.user()), 69);
    const Words xdg{"XDG_CONFIG_HOME=" + strange.home.file(".config")};
    check_ended(in_home(own.path(), with(xdg, words), own.user()), 69);
  }
}

TEST_CASE("a database that only another user's HOME configures is refused and HOME named") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome own;
  for (const auto& [owner, open] : {std::pair{uid_t{0}, false}, {uid_t{54321}, true}}) {
    const StrangeHome strange(owner, open);
    CAPTURE(owner, open);
    const auto ended = in_home(strange.home.path(), {own.binary(), "inspect"}, own.user());
    check_ended(ended, 78,
                {"no database is configured", strange.home.file(".config/dblock.conf") + " is not read",
                 strange.home.file(".my.cnf") + " is not read", "another user's directory", "HOME"});
  }
}

TEST_CASE("a login without the password of another user's HOME is refused and HOME named", "[server]") {
  DBLOCK_NEEDS(why_no_other_user());
  ServerDatabase database;
  const UsersHome own;
  const StrangeHome strange(0, false);
  Proxy proxy(database.server());  // the server's socket lies where only root may go
  const std::string url = proxy.url(database.name(), database.account("IDENTIFIED BY 'secret'"));
  check_ended(in_home(strange.home.path(), {own.binary(), "--db", url, "inspect"}, own.user()), 77,
              {"no password is configured; configuration file", "HOME"});
}

TEST_CASE("a file of the user's own that the user may not read is refused") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  write_file(home.file(".my.cnf"), "[client]\npassword = x\n", 0);
  const Words words{home.binary(), "--db", "mysql://u@127.0.0.1:1/d", "inspect"};
  check_ended(in_home(home.path(), words, home.user()), 78, {"cannot read option file", "Permission denied"});
}

TEST_CASE("only a regular file of the user's own is obeyed unasked", "[asan-local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const Database database;
  const UsersHome home;
  const Words words{home.binary(), "--db", "mysql://u@127.0.0.1:1/d", "inspect"};
  REQUIRE(run_program({.argv = {"mkdir", home.file(".config")}, .user = home.user()}).exit == exited(0));
  for (const std::string name : {".config/dblock.conf", ".my.cnf"}) {
    const std::string file = home.file(name);
    CAPTURE(file);
    write_file(file, "# nothing\n");
    REQUIRE(::chown(file.c_str(), 54321, 54321) == 0);
    check_ended(in_home(home.path(), words, home.user()), 78,
                {file + " is refused", "it belongs to another user (uid 54321)"});
    std::filesystem::remove(file);
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    REQUIRE(::chown(file.c_str(), home.user(), home.user()) == 0);
    check_ended(in_home(home.path(), words, home.user()), 78, {file + " is refused", "not a regular file"});
    std::filesystem::remove(file);
  }
}

TEST_CASE("a user's own files are obeyed through links, and root's") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  const Words words{home.binary(), "inspect"};
  std::filesystem::create_directory(home.file(".config"));
  write_file(home.file("dotfile"), "db = mysql://u@127.0.0.1:1/d\n");
  std::filesystem::create_symlink("../dotfile", home.file(".config/dblock.conf"));
  std::filesystem::create_symlink("/dev/null", home.file(".my.cnf"));
  for (const uid_t owner : {home.user(), uid_t{0}}) {
    REQUIRE(::chown(home.file("dotfile").c_str(), owner, owner) == 0);
    check_ended(in_home(home.path(), words, home.user()), 69, {});
  }
}

// An inspection by `user`: 69, since there is no server, where dblock obeys what `options` name.
Finished inspected_by(uid_t user, const UsersHome& home, const Words& options, const Words& sandbox = {}) {
  Spawn spec = home.spawn(with(with({"--db", "mysql://u@127.0.0.1:1/d"}, options), {"inspect"}));
  spec.argv.insert(spec.argv.begin() + 2, sandbox.begin(), sandbox.end());  // after env HOME=…
  spec.user = user;
  return run_program(spec);
}

// A directory of root's that everybody may look into, with these files in it.
struct NamedFiles {
  NamedFiles() {
    std::filesystem::permissions(directory.path(), std::filesystem::perms(0755));
    std::filesystem::create_directory(directory.file("parts"));
    write_file(conf, "[run]\nttl = 1m\n");
    write_file(part, "[dblock]\nport = 1\n");
    write_file(including, "!include " + part + "\n");
    write_file(including_all, "!includedir " + directory.file("parts") + "\n");
  }
  const TempDir directory;
  const std::string conf = directory.file("conf"), part = directory.file("parts/part.cnf"),
                    including = directory.file("a.cnf"), including_all = directory.file("b.cnf");
};

TEST_CASE("a file that an option names is not obeyed if it belongs to another user", "[asan-local]") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home(54322);
  const NamedFiles files;
  for (const auto& [file, options] :
       {std::pair{files.conf, Words{"--config", files.conf}},
        std::pair{files.part, Words{"--defaults-file", files.part}},
        std::pair{files.part, Words{"--defaults-file", files.including}},
        std::pair{files.part, Words{"--defaults-file", files.including_all}},
        std::pair{files.including, Words{"--defaults-file", files.including}}}) {
    for (const uid_t owner : {uid_t{0}, home.user(), uid_t{54321}}) {
      REQUIRE(::chown(file.c_str(), owner, 0) == 0);
      for (const uid_t user : {uid_t{0}, home.user()}) {
        CAPTURE(options, file, owner, user);
        const auto ended = inspected_by(user, home, options);
        if (owner == 0 || owner == user) check_ended(ended, 69);
        if (owner != 0 && owner != user)
          check_ended(
              ended, 78,
              {file, "belongs to another user (uid " + std::to_string(owner) + "); chown it to root"});
      }
    }
    REQUIRE(::chown(file.c_str(), 0, 0) == 0);
  }
}

TEST_CASE("root obeys no option file that another group may write, and minds none that tells it nothing") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home;
  const NamedFiles files;
  const auto check = [&](gid_t group, int code, const Words& said) {
    REQUIRE(::chown(files.part.c_str(), 0, group) == 0);
    REQUIRE(::chmod(files.part.c_str(), 0664) == 0);
    check_ended(inspected_by(0, home, {"--defaults-file", files.including}), code, said);
  };
  check(0, 69, {});
  check(1, 78, {files.part + " line 2", "its group may write it (gid 1); chmod g-w it"});
  write_file(files.part, "[mysqld]\nport = 1\n[client]\ndefault-character-set = utf8mb4\n");
  check(1, 69, {});
  REQUIRE(::chown(files.part.c_str(), 54321, 54321) == 0);
  check_ended(inspected_by(0, home, {"--defaults-file", files.part}), 69);
}

TEST_CASE("a mounted secret is obeyed, and what a sandbox shows of a user whom it does not know") {
  DBLOCK_NEEDS(why_no_other_user());
  const UsersHome home(54322);
  const NamedFiles files;
  std::filesystem::create_symlink("..data/part.cnf", files.directory.file("secret"));
  std::filesystem::create_symlink("parts", files.directory.file("..data"));
  REQUIRE(::chown(files.part.c_str(), 0, home.user()) == 0);
  REQUIRE(::chmod(files.part.c_str(), 0440) == 0);
  check_ended(inspected_by(home.user(), home, {"--defaults-file", files.directory.file("secret")}), 69);
  const Words sandbox{"unshare", "--user", "--map-root-user"};
  const auto tried = run_program({.argv = with(sandbox, {"true"}), .user = home.user()});
  DBLOCK_NEEDS(tried.exit == exited(0) ? "" : "no user namespace of one's own: " + tried.err);
  write_file(home.file(".my.cnf"), "[dblock]\nport = 1\n");  // root's
  for (const Words& options :
       {Words{"--config", files.conf}, Words{"--defaults-file", files.including_all}, Words{}})
    check_ended(inspected_by(home.user(), home, options, sandbox), 69);
}

TEST_CASE("root obeys what another user's pipe hands over") {
  DBLOCK_NEEDS(why_no_other_user());
  for (const std::string option : {"--config", "--defaults-file"}) {
    std::array<int, 2> ends{};
    ::setfsuid(54321);
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    ::setfsuid(0);
    const std::string text = "[dblock]\nport = 1\n";
    REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    Spawn spec;
    spec.argv = {dblock_binary(), "--db", "mysql://u@127.0.0.1:1/d", option, "/dev/stdin", "inspect"};
    spec.stdin_fd = ends[0];
    const auto ended = run_program(spec);
    ::close(ends[0]);
    INFO(ended.err);
    CHECK_FALSE(says(ended.err, "another user"));
    check_ended(ended, option == "--config" ? 78 : 69);  // as [dblock] is no subcommand
  }
}

TEST_CASE("a message shows no line of a file that is no configuration") {
  const TempDir directory;
  const std::string file = directory.file("f");
  for (const std::string line : {"root:$y$j9T$secret:20000:0:99999:7:::", "secret$=x", "[secret=]"}) {
    write_file(file, line + "\n", 0600);
    const auto ended = dblock_bare({"--config", file, "inspect"});
    check_ended(ended, 78, {file + ":1: "});
    CHECK_FALSE(says(ended.err, "secret"));
  }
}

TEST_CASE("a configuration file may name the password file", "[server]") {
  ServerDatabase database;
  const std::string user = database.account("IDENTIFIED BY 'secret'");
  const TempDir directory;
  write_file(directory.file("password"), "secret\n", 0600);
  write_file(directory.file("conf"),
             "db = " + database.url(user) + "\npassword-file = " + directory.file("password") + "\n");
  const auto ended = dblock_bare({"--config", directory.file("conf"), "run", "--key", "k", "--", "true"});
  CHECK(ended.exit == exited(0));
  CHECK(ended.err.empty());
}

TEST_CASE("quotes around a value in a configuration file are no part of it", "[asan-local]") {
  const Database database;
  const TempDir directory;
  write_file(directory.file("conf"),
             "db = \"" + database.url() + "\"\nnote = 'two  words'\ncommand = \"echo\" \"hi\"\n");
  const auto ended = dblock_bare({"--config", directory.file("conf"), "run", "--key", "k"});
  INFO(ended.err);
  CHECK(ended.exit == exited(0));
  CHECK(ended.out == "hi\n");  // those of a shell line are the shell's
  REQUIRE(dblock_bare({"--config", directory.file("conf"), "acquire", "--key", "k", "--ttl", "1m"}).exit ==
          exited(0));
  CHECK(says(dblock_bare({"--config", directory.file("conf"), "inspect", "--json"}).out,
             "\"note\":\"two  words\""));
}

TEST_CASE("a password in a url on the command line works with a warning and is shown nowhere",
          "[server][other-servers][asan-server]") {
  ServerDatabase database;
  const std::string user = database.account("IDENTIFIED BY 'p@ss/w:rd'");
  const std::string url = database.url(user + ":p%40ss%2Fw%3Ard");
  const auto warned = dblock_bare({"--db", url, "run", "--key", "k", "--", "true"});
  INFO(warned.err);
  CHECK(warned.exit == exited(0));
  CHECK(says(warned.err, "password"));
  CHECK_FALSE(says(warned.err, "ss/w"));
  CHECK_FALSE(says(warned.err, "p%40ss"));
  const auto quiet = dblock_at(url, run_words("k", {}, {"true"}));
  CHECK(quiet.exit == exited(0));
  CHECK(quiet.err.empty());
}

TEST_CASE("a password file loses one newline and warns when others may read it", "[server]") {
  ServerDatabase database;
  const std::string user = database.account("IDENTIFIED BY 'secret '");
  const TempDir directory;
  const std::string file = directory.file("password");
  write_file(file, "secret \n", 0600);
  const Words env{"DBLOCK_DB=" + database.url(user), "DBLOCK_PASSWORD_FILE=" + file};
  const auto quiet = dblock_bare(run_words("k", {}, {"true"}), env);
  INFO(quiet.err);
  CHECK(quiet.exit == exited(0));
  CHECK(quiet.err.empty());
  write_file(file, "secret \n", 0644);
  const auto warned = dblock_bare(run_words("k", {}, {"true"}), env);
  CHECK(warned.exit == exited(0));
  CHECK(says(warned.err, file));
  CHECK(dblock_bare({"--db", database.url(user) + "&password-file=" + file, "inspect"}).exit == exited(0));
  CHECK(dblock_bare({"--db", database.url(user) + "&password-file=/nonexistent", "inspect"}).exit ==
        exited(78));
}

TEST_CASE("a password file may belong to another user", "[server]") {
  DBLOCK_NEEDS(why_no_other_user());
  ServerDatabase database;
  const std::string user = database.account("IDENTIFIED BY 'secret'");
  const TempDir directory;
  const std::string file = directory.file("password");
  write_file(file, "secret\n", 0600);
  REQUIRE(::chown(file.c_str(), 54321, 54321) == 0);
  const auto ended = dblock_bare({"--db", database.url(user), "inspect"}, {"DBLOCK_PASSWORD_FILE=" + file});
  INFO(ended.err);
  CHECK(ended.exit == exited(0));
  CHECK(ended.err.empty());
}

TEST_CASE("a command prints the password once for a run and its guardian, which releases with it",
          "[server][asan-server]") {
  ServerDatabase database;
  const TempDir directory;
  const std::string user = database.account("IDENTIFIED BY 'secret'", "ALL");
  const std::string conf = directory.file("conf");
  write_file(conf,
             "password-command = echo asked >>" + directory.file("count") + "; echo said >&2; echo secret\n",
             0600);
  LiveRun run(database.url(user), {"--config", conf});
  CHECK(says(run.err(), "said\n"));
  run.signal(SIGKILL);
  run.wait();
  CHECK(soon_free(database));
  CHECK(read_file(directory.file("count")) == "asked\n");
}

TEST_CASE("a command that fails or is too slow for the password is 69, and nothing of it is left",
          "[server]") {
  const ServerDatabase database;
  const TempDir directory;
  const std::string conf = directory.file("conf");
  const auto refused = [&](const std::string& command, const std::string& why) {
    write_file(conf, "password-command = " + command + "\n", 0600);
    const std::string url = database.url();
    Process process(dblock_spawn_at(url + (says(url, "?") ? "&" : "?") + "connect-timeout=300ms",
                                    {"--config", conf, "inspect"}));
    CHECK(process.wait() == exited(69));
    INFO(process.err());
    CHECK(says(last_line(process.err()), "the password-command in " + conf + " " + why));
    CHECK_FALSE(says(process.err(), "secret"));
    CHECK(soon_gone(process));
  };
  refused("echo secret; exit 3", "failed with exit status 3");
  refused("true", "printed no password");
  refused("echo secret; sleep 600 & sleep 600", "did not end within 300ms");
}

TEST_CASE("a command that the system does not let dblock start or await is 69", "[server]") {
  DBLOCK_NEEDS(why_no_preload());
  const std::string url = "mysql://u@127.0.0.1:1/d?password-command=true";
  const auto with_refused = [&](const std::string& call) {
    return dblock_at(url, {"inspect"}, failing(call, ENOMEM));
  };
  check_ended(with_refused("fork"), 69, {"cannot be started: Cannot allocate memory"});
  check_ended(with_refused("poll"), 69, {"cannot be waited for: Cannot allocate memory"});
  check_ended(dblock_at(url, {"inspect"}, failing("pidfd_open", ENOSYS)), 69,
              {"cannot be started and waited for: ", "pidfd_open needs Linux 5.3"});
}

TEST_CASE("a signal ends dblock at once while a command looks for the password, and the command too",
          "[server][asan-server]") {
  const TempDir directory;
  const std::string conf = directory.file("conf");
  write_file(conf, "password-command = echo $$ >" + directory.file("pid") + "; sleep 600 & wait\n", 0600);
  Process process(
      dblock_spawn_at("mysql://u@127.0.0.1:1/d?connect-timeout=1h", {"--config", conf, "inspect"}));
  REQUIRE(wait_until([&] { return pid_in(directory.file("pid")) > 0; }));
  process.signal(SIGTERM);
  CHECK(process.wait() == killed_by(SIGTERM));
  CHECK(soon_gone(process));
}

TEST_CASE("the second host of a url is tried when the first does not answer", "[server]") {
  const ServerDatabase database;
  const auto finished = dblock_at(
      "mysql://app@127.0.0.1:1,127.0.0.1:" + std::to_string(database.server().port) + "/" + database.name(),
      run_words("k", {}, {"true"}));
  INFO(finished.err);
  CHECK(finished.exit == exited(0));
}

TEST_CASE("both schemes mean the same", "[server]") {
  const ServerDatabase database;
  const std::string url = database.tcp_url();
  CHECK(dblock_bare({"--db", "mariadb" + url.substr(5), "inspect"}).exit == exited(0));
}

TEST_CASE("names with special characters are decoded", "[server]") {
  ServerDatabase database;
  database.sql("DROP USER IF EXISTS 'at@home'@'%'");
  database.sql("CREATE USER 'at@home'@'%'");
  database.sql("GRANT ALL ON " + database.name() + ".* TO 'at@home'@'%'");
  CHECK(dblock_bare({"--db", database.url("at%40home"), "inspect"}).exit == exited(0));
}

}  // namespace
}  // namespace dblock::test
