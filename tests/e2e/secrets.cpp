// Where a password can be seen while a job runs: nowhere but where the user has put it.

#include "support/catch.hpp"
#include "support/dblock.hpp"

namespace dblock::test {
namespace {

constexpr const char* k_password = "geheim-4711";

struct Seen {
  std::string command_lines;  // of dblock, its guardian and the job, as ps shows them
  std::string environments;
  std::string words;  // what dblock printed
};

// Runs a job and looks at all processes from outside while it runs.
Seen look_at_run(const Words& before_run, const Words& env) {
  const TempDir directory;
  Process run(dblock_bare_spawn(with(before_run, run_words("k", {}, sh(until_told(directory)))), env));
  await_file(run, directory.file("up"));
  Seen seen;
  for (const pid_t pid : run.tree()) {
    const std::string proc = "/proc/" + std::to_string(pid);
    seen.command_lines += read_file(proc + "/cmdline") + "\n";
    seen.environments += read_file(proc + "/environ") + "\n";
  }
  CHECK(count_of(seen.command_lines, "\n") >= 3);
  write_file(directory.file("go"), "");
  const Exit exit = run.wait();
  seen.words = run.out() + run.err();
  INFO(seen.words);
  CHECK(exit == exited(0));
  return seen;
}

class Account {
 public:
  Account() : user_(database_.account(std::string("IDENTIFIED BY '") + k_password + "'", "ALL")) {}
  [[nodiscard]] std::string url() const { return database_.url(user_); }
  [[nodiscard]] std::string url_with_password() const { return database_.url(user_ + ":" + k_password); }

 private:
  ServerDatabase database_;
  std::string user_;
};

TEST_CASE("a password from a file is in no process's words or environment", "[server]") {
  const Account account;
  const TempDir directory;
  write_file(directory.file("password"), k_password, 0600);
  write_file(directory.file("options"), std::string("[client]\npassword=") + k_password + "\n", 0600);
  for (const Words& env :
       {Words{"DBLOCK_DB=" + account.url(), "DBLOCK_PASSWORD_FILE=" + directory.file("password")},
        Words{"DBLOCK_DB=" + account.url() + "&password-file=" + directory.file("password")},
        Words{"DBLOCK_DB=" + account.url() + "&password-command=cat%20" + directory.file("password")},
        Words{"DBLOCK_DB=" + account.url(), "DBLOCK_DEFAULTS_FILE=" + directory.file("options")}}) {
    const Seen seen = look_at_run({}, env);
    CHECK_FALSE(says(seen.command_lines + seen.environments + seen.words, k_password));
  }
}

TEST_CASE("a password typed in a url is hidden from ps at once and is not the job's to see",
          "[server][asan-server]") {
  const Account account;
  const Seen seen = look_at_run({"--db", account.url_with_password()}, {});
  CHECK_FALSE(says(seen.command_lines + seen.environments, k_password));
  CHECK_FALSE(says(seen.words, k_password));
  CHECK(says(seen.words, "can be seen by every user"));
}

TEST_CASE("a password-command typed in a url earns a warning, as a password there does", "[server]") {
  const Account account;
  const std::string url = account.url() + "&password-command=echo%20" + k_password;
  CHECK(says(look_at_run({"--db", url}, {}).words, "the password-command in --db, and what it names"));
  CHECK_FALSE(says(look_at_run({}, {"DBLOCK_DB=" + url}).words, "password-command"));
}

TEST_CASE("a password in DBLOCK_DB stays in the environment, which only its owner may read", "[server]") {
  const Account account;
  const Seen seen = look_at_run({}, {"DBLOCK_DB=" + account.url_with_password()});
  CHECK(says(seen.environments, k_password));  // the job may need it, for a dblock of its own
  CHECK_FALSE(says(seen.command_lines + seen.words, k_password));
}

TEST_CASE("a password in DBLOCK_PASSWORD stays in the environment, which only its owner may read",
          "[server]") {
  const Account account;
  const Seen seen =
      look_at_run({}, {"DBLOCK_DB=" + account.url(), std::string("DBLOCK_PASSWORD=") + k_password});
  CHECK(says(seen.environments, k_password));  // the job may need it, for a dblock of its own
  CHECK_FALSE(says(seen.command_lines + seen.words, k_password));
}

TEST_CASE("a password reaches no status file, no row and no other output", "[server]") {
  ServerDatabase database;
  const std::string user = database.account(std::string("IDENTIFIED BY '") + k_password + "'", "ALL");
  const TempDir directory;
  const std::string url = database.url(user + ":" + k_password);
  std::string all;
  for (const Words& words :
       {Words{"run", "-v", "--key", "k", "--status-file", directory.file("status"), "--", "true"},
        Words{"acquire", "--json", "--key", "l", "--ttl", "60s"}, Words{"inspect", "--json", "--all"},
        Words{"release", "--key", "l", "--force"}, Words{"doctor", "--json"}, Words{"migrate", "--status"},
        Words{"--log-format", "json", "-v", "run", "--key", "l", "--", "true"}}) {
    const auto finished = dblock_at(url, words);
    all += finished.out + finished.err;
  }
  all += read_file(directory.file("status")) + database.row("k") + database.row("l");
  CHECK(says(all, "\"key\""));
  CHECK_FALSE(says(all, k_password));
}

}  // namespace
}  // namespace dblock::test
