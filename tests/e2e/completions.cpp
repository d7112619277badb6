// What bash, zsh and fish themselves make of the files in completions/.
#include <filesystem>
#include <map>
#include <memory>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/fake_server.hpp"
#include "support/privilege.hpp"
#include "support/pty.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

namespace fs = std::filesystem;

std::string completions() {
  return (fs::path(DBLOCK_SOURCE_DIR) / "completions").string();
}

// A shell that completes, as a person sees it. In place of dblock it has a function that shows its arguments.
class Shell {
 public:
  Shell(std::string name, const std::string& database) : name_(std::move(name)) {
    env_ = {"TERM=xterm", "DBLOCK_DB=" + database};
    if (name_ == "fish") return;
    const std::string show = "dblock() { case \" $* \" in *' __keys '*) " + dblock_binary() +
                             R"( "$@" ;; *) printf '\ngot'; printf '<%s>' "$@"; echo . ;; esac; })";
    if (name_ == "bash") {
      terminal_ = std::make_unique<Terminal>(interactive_bash(), env_);
      terminal_->send("bind 'set enable-bracketed-paste off'; . " + completions() + "/dblock.bash\n");
    } else {
      terminal_ = std::make_unique<Terminal>(Words{"zsh", "-f", "-i"}, env_);
      terminal_->send("unset zle_bracketed_paste; fpath=(" + completions() +
                      " $fpath); autoload -Uz compinit; compinit -u -D\n");
    }
    terminal_->send(show + "\n");
    terminal_->send("echo set'-'up\n");
    if (!terminal_->shows("set-up")) throw std::runtime_error(name_ + " said " + terminal_->screen());
  }

  // The words after "dblock" when Tab is pressed at the end of `line`, or, of fish, what it offers.
  std::string complete(const std::string& line) {
    if (name_ == "fish") return offered_by_fish(line);
    terminal_->send(line + "\t");
    terminal_->send("\r");
    const std::size_t from = terminal_->screen().size();
    if (!terminal_->shows("got<") || !terminal_->shows(">.")) return "no answer: " + terminal_->screen();
    const std::string& screen = terminal_->screen();
    const auto begin = screen.find("got<", from) + 3;
    return screen.substr(begin, screen.find(">.", begin) + 1 - begin);
  }

 private:
  std::string offered_by_fish(const std::string& line) {
    const std::string script = "function dblock; " + dblock_binary() + " $argv; end; source " +
                               completions() + "/dblock.fish; complete -C \"$argv[1]\"";
    const auto done =
        run_program({.argv = {"fish", "--no-config", "-c", script, line}, .env = env_}, patience());
    return done.out + done.err;
  }

  std::string name_;
  Words env_;
  std::unique_ptr<Terminal> terminal_;
};

// What each shell completes the line to, up to its way of writing it.
void expect_completions(const std::string& name) {
  DBLOCK_NEEDS(why_no_program(name));
  Database database;
  REQUIRE(run_true(database, "nightly-etl") == exited(0));
  REQUIRE(run_true(database, "deploy web") == exited(0));
  REQUIRE(run_true(database, "app:cache") == exited(0));
  Shell shell(name, database.url());
  const bool fish = name == "fish";
  const auto check = [&](const std::string& line, const std::string& words, const std::string& in_fish) {
    const std::string got = shell.complete(line);
    INFO(name << ": " << line << " -> " << got);
    CHECK((fish ? ("\n" + got).find("\n" + in_fish) != std::string::npos : got == words));
  };
  check("dblock ins", "<inspect>", "inspect\tshow who holds what\n");
  check("dblock --quiet ren", "<--quiet><renew>", "renew\t");
  check("dblock reap --forget-a", "<reap><--forget-after>", "--forget-after\t");
  check("dblock run --leftovers ki", "<run><--leftovers><kill>", "kill\t");
  check("dblock --color ne", "<--color><never>", "never\t");
  check("dblock run --key nig", "<run><--key><nightly-etl>", "nightly-etl\t");
  check("dblock run --any nig", "<run><--any><nightly-etl>", "nightly-etl\t");
  check("dblock inspect -k nig", "<inspect><-k><nightly-etl>", "nightly-etl\t");
  check("dblock inspect --key dep", "<inspect><--key><deploy web>", "deploy web\t");
  check("dblock inspect --key app:c", "<inspect><--key><app:cache>", "app:cache\t");
  check("dblock help ins", "<help><inspect>", "inspect");
  check("dblock completion zs", "<completion><zsh>", "zsh");
  check("dblock run -k a -- printe", "<run><-k><a><--><printenv>", "printenv\t");
}

TEST_CASE("bash completes subcommands, options, values, live keys and the job") {
  expect_completions("bash");
}
TEST_CASE("zsh completes subcommands, options, values, live keys and the job") {
  expect_completions("zsh");
}
TEST_CASE("fish completes subcommands, options, values, live keys and the job") {
  expect_completions("fish");
}

TEST_CASE("fish offers the options that begin as the word does, and nothing is said beside") {
  DBLOCK_NEEDS(why_no_program("fish"));
  const Database database;
  Shell shell("fish", database.url());
  for (const char* line : {"dblock run --wai", "dblock run --wait", "dblock run -k a --wai"}) {
    CAPTURE(line);
    const std::string got = shell.complete(line);
    CHECK(got.starts_with("--wait\thow long to wait for the lock\n"));
    // fish 4 adds those that the word is a part of.
    for (const auto& offered : lines(got)) CHECK(offered.substr(0, offered.find('\t')).ends_with("-wait"));
  }
  CHECK(shell.complete("dblock run -k a -- --wai").empty());  // of a command that is not there
  CHECK(shell.complete("dblock acquire --lost") == "--lost-signal\tsent to PID if the lease is lost\n");
}

// What takes a KEY, the shells complete from the keys that there are.
TEST_CASE("each option that names a lock takes a KEY by --help, and no other option does") {
  const std::map<std::string, Words> naming{
      {"run", {"--key", "--any"}}, {"acquire", {"--key"}}, {"renew", {"--key"}},   {"release", {"--key"}},
      {"pause", {"--key"}},        {"resume", {"--key"}},  {"inspect", {"--key"}}, {"wait", {"--key"}},
      {"history", {"--key"}},      {"reap", {}},           {"migrate", {}},        {"doctor", {}}};
  for (const auto& [subcommand, options] : naming) {
    CAPTURE(subcommand);
    const std::string help = dblock_bare({subcommand, "--help"}).out;
    CHECK(count_of(help, " KEY  ") == options.size());
    for (const auto& option : options) CHECK(says(help, option + " KEY  "));
  }
}

void expect_keys_that_begin_with_a_dash(const std::string& name) {
  DBLOCK_NEEDS(why_no_program(name));
  const Database database;
  REQUIRE(dblock(database, {"run", "--key=-odd", "--", "true"}).exit == exited(0));
  Shell shell(name, database.url());
  const std::string got = shell.complete("dblock run --key=-o");
  INFO(got);
  CHECK(says(got, "-odd"));
}

TEST_CASE("bash completes keys that begin with a dash too") {
  expect_keys_that_begin_with_a_dash("bash");
}
TEST_CASE("zsh completes keys that begin with a dash too") {
  expect_keys_that_begin_with_a_dash("zsh");
}
TEST_CASE("fish completes keys that begin with a dash too") {
  expect_keys_that_begin_with_a_dash("fish");
}

void expect_keys_of_the_database_on_the_line(const std::string& name) {
  DBLOCK_NEEDS(why_no_program(name));
  const TempDir directory;
  const std::string other = "sqlite:" + directory.file("other.db");
  REQUIRE(dblock_bare({"run", "--db", other, "--key", "elsewhere", "--", "true"}).exit == exited(0));
  const Database database;
  Shell shell(name, database.url());
  const std::string got = shell.complete("dblock --db " + other + " inspect -k els");
  INFO(got);
  CHECK(got.starts_with(name == "fish" ? "elsewhere\t" : "<--db><" + other + "><inspect><-k><elsewhere>"));
}

TEST_CASE("bash completes the keys of the database that is named on the line", "[local]") {
  expect_keys_of_the_database_on_the_line("bash");
}
TEST_CASE("zsh completes the keys of the database that is named on the line", "[local]") {
  expect_keys_of_the_database_on_the_line("zsh");
}
TEST_CASE("fish completes the keys of the database that is named on the line", "[local]") {
  expect_keys_of_the_database_on_the_line("fish");
}

TEST_CASE("keys are completed silently and within moments when the database does not answer", "[server]") {
  Server server;
  ServerDatabase database(server.address());
  REQUIRE(run_true(database, "nightly-etl") == exited(0));
  server.freeze();
  const auto done = dblock_at(database.tcp_url() + "?connect-timeout=10m", {"__keys"});
  CHECK(done.exit == exited(0));
  CHECK(done.out.empty());
  CHECK(done.err.empty());
  server.thaw();
}

TEST_CASE("a key that a terminal would not show as it is, is not offered", "[asan-local]") {
  Database database;
  REQUIRE(run_true(database, "a") == exited(0));
  REQUIRE(run_true(database, "a\u200b") == exited(0));
  REQUIRE(run_true(database, "a\\b") == exited(0));
  CHECK(dblock(database, {"__keys"}).out == "a\na\\b\n");
}

TEST_CASE("at most a hundred keys are offered, each once, and only those that begin so") {
  Database database;
  take(database, "a", {"--ttl", "1m", "--slots", "3"});
  take(database, "a", {"--ttl", "1m", "--slots", "3"});
  for (int i = 0; i < 110; ++i) take(database, "k" + std::to_string(1000 + i), {"--ttl", "1m"});
  CHECK(dblock(database, {"__keys", "--prefix", "a"}).out == "a\n");
  const auto all = lines(dblock(database, {"__keys", "--prefix", "k"}).out);
  REQUIRE(all.size() == 100);
  CHECK(all.front() == "k1000");
  CHECK(lines(dblock(database, {"__keys"}).out).front() == "a");
}

TEST_CASE("help, version and completion print what they are named for", "[asan-local]") {
  const auto same = [](const Words& words, const Words& as) {
    const auto finished = dblock_bare(words);
    CHECK(finished.exit == exited(0));
    CHECK(finished.err.empty());
    CHECK_FALSE(finished.out.empty());
    CHECK(finished.out == dblock_bare(as).out);
  };
  same({"help"}, {"--help"});
  same({"help", "run"}, {"run", "--help"});
  same({"version"}, {"--version"});
  CHECK(dblock_bare({"completion", "bash"}).out == read_file(completions() + "/dblock.bash"));
  CHECK(dblock_bare({"completion", "zsh"}).out == read_file(completions() + "/_dblock"));
  CHECK(dblock_bare({"completion", "fish"}).out == read_file(completions() + "/dblock.fish"));
  const auto unknown = dblock_bare({"completion", "tcsh"});
  CHECK(unknown.exit == exited(64));
  CHECK(says(unknown.err, "completion needs one shell: bash, zsh or fish"));
  CHECK(dblock_bare({"help", "nothing"}).exit == exited(64));
}

}  // namespace
}  // namespace dblock::test
