// A part of the job belongs to a user whom dblock may not signal, as after sudo: nothing can stop it, so the
// lock must not be given back as if it were dead.
#include <sys/stat.h>

#include <filesystem>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/privilege.hpp"

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

void check_left_to_expire(const Words& store) {
  const Sudo sudo;
  DBLOCK_NEEDS(sudo.why_not());
  const UsersHome home;
  const auto as_user = [&](const Words& words) { return home.spawn(with(store, words)); };
  const Words inspect{"inspect", "--key", "k", "--exit-code"};
  const Words options{"--ttl", "4s", "--heartbeat", "300ms", "--kill-grace", "300ms", "--margin", "1s"};
  Process run(as_user(
      run_words("k", options,
                sh(sudo.command("sleep 600") + " & " + print_into(home.file("pid"), "echo $!") + "; wait"))));
  await_file(run, home.file("pid"));
  const pid_t foreign = pid_in(home.file("pid"));
  REQUIRE(wait_until([&] { return proc_info(foreign).name == "sleep"; }));
  run.signal(SIGTERM);
  const Exit exit = run.wait(30s * slowness());
  INFO(exit << " " << run.err());
  CHECK(exit == killed_by(SIGTERM));
  CHECK(alive(foreign));  // else it proves nothing
  CHECK(says(run.err(), "some of the job's processes could not be stopped"));
  CHECK(says(run.err(), "is left to expire instead of being released"));
  CHECK(run_program(as_user(inspect)).exit == exited(75));
  CHECK(run_program(as_user(run_words("k", {"--wait", "60s"}, {"true"}))).exit == exited(0));
  CHECK(alive(foreign));
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

}  // namespace
}  // namespace dblock::test
