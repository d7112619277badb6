// A part of the job belongs to a user whom dblock may not signal, as after sudo: nothing can stop it, so the
// lock must not be given back as if it were dead.
#include <sys/stat.h>

#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

namespace fs = std::filesystem;

// A sudo that asks nobody.
class Sudo {
 public:
  Sudo() {
    fs::permissions(directory_.path(), fs::perms(0755));
    const auto found = run_program({.argv = sh("command -v setpriv")});
    if (found.exit != exited(0)) return;
    fs::copy_file(lines(found.out).at(0), program_);
    ::chmod(program_.c_str(), 04755);
  }
  [[nodiscard]] std::string command(const std::string& words) const {
    return program_ + " --reuid=0 --regid=0 --clear-groups " + words;
  }
  [[nodiscard]] std::string why_not() const {
    if (auto reason = why_no_other_user(); !reason.empty()) return reason;
    if (auto reason = why_no_program("setpriv"); !reason.empty()) return reason;
    const auto tried = run_program({.argv = sh(command("id -u")), .user = k_nobody});
    return tried.out == "0\n" ? "" : "no set-user-id program works here: " + tried.err;
  }

 private:
  TempDir directory_;
  std::string program_ = directory_.file("sudo");
};

const Words k_brief{"--ttl", "4s", "--heartbeat", "300ms", "--kill-grace", "300ms", "--margin", "1s"};

// A user's run, a process of which is root's.
class SudoingRun {
 public:
  SudoingRun(const Sudo& sudo, const Words& store)
      : store_(store),
        run(as_user(run_words(
            "k", k_brief,
            sh(sudo.command("sleep 600") + " & " + print_into(home_.file("pid"), "echo $!") + "; wait")))) {
    await_file(run, home_.file("pid"));
    foreign = pid_in(home_.file("pid"));
    REQUIRE(wait_until([&] { return proc_info(foreign).name == "sleep"; }));
  }
  [[nodiscard]] Spawn as_user(const Words& words) const { return home_.spawn(with(store_, words)); }

 private:
  const UsersHome home_;
  const Words store_;

 public:
  Process run;
  pid_t foreign = 0;
};

void check_left_to_expire(const Words& store) {
  const Sudo sudo;
  DBLOCK_NEEDS(sudo.why_not());
  SudoingRun t(sudo, store);
  t.run.signal(SIGTERM);
  const Exit exit = t.run.wait(30s * slowness());
  INFO(exit << " " << t.run.err());
  CHECK(exit == killed_by(SIGTERM));
  CHECK(alive(t.foreign));  // else it proves nothing
  CHECK(says(t.run.err(), "some of the job's processes could not be stopped"));
  CHECK(says(t.run.err(), "is left to expire instead of being released"));
  CHECK(run_program(t.as_user({"inspect", "--key", "k", "--exit-code"})).exit == exited(75));
  CHECK(run_program(t.as_user(run_words("k", {"--wait", "60s"}, {"true"}))).exit == exited(0));
  CHECK(alive(t.foreign));
}

TEST_CASE("a process that dblock may not signal: the lock is left to expire and not released",
          "[server][safety]") {
  const ServerDatabase database;
  check_left_to_expire({"--db", database.tcp_url()});
}

TEST_CASE("a process that dblock may not signal: a lock of this host is left to expire as well",
          "[local][safety][asan-local]") {
  check_left_to_expire({"--local"});
}

TEST_CASE("a run that loses its lease says that a process which it may not signal lives on", "[server]") {
  const Sudo sudo;
  DBLOCK_NEEDS(sudo.why_not());
  const ServerDatabase database;
  SudoingRun t(sudo, {"--db", database.tcp_url()});
  revoke(database);
  check_ends(
      t.run, 76,
      {"; the job was stopped", ", but some of its processes could not be killed; see `dblock inspect`"},
      30s * slowness());
  CHECK(alive(t.foreign));  // else it proves nothing
}

}  // namespace
}  // namespace dblock::test
