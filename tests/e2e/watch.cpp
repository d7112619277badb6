// inspect --watch: a picture on a terminal, a stream elsewhere.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/privilege.hpp"
#include "support/proxy.hpp"
#include "support/pty.hpp"
#include "support/shown.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

const std::string k_enter = "\x1b[?1049h\x1b[?25l";
const std::string k_leave = "\x1b[?25h\x1b[?1049l";
const std::string k_home = "\x1b[H";

// All that is shown here is narrow.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// Takes a lock for a long time.
std::string hold(const Database& database, const std::string& key = "k", const std::string& note = "") {
  return take(database, key, {"--ttl", "10m", "--note", note});
}

// A shell at a terminal that watches, and then says how that ended and waits.
class Watching {
 public:
  explicit Watching(const std::string& url, const std::string& options, const Words& env = {},
                    unsigned short columns = 120)
      : terminal_(sh("echo before; " + dblock_binary() + " inspect --watch " + options +
                     "; echo \"ended: $?\"; read -r rest"),
                  with(env, {"TERM=xterm", "NO_COLOR=1", "DBLOCK_DB=" + url}), columns) {}

  [[nodiscard]] Terminal& terminal() { return terminal_; }
  [[nodiscard]] bool shows(const std::string& text) { return terminal_.shows(text); }
  [[nodiscard]] Shown shown() const { return Shown(terminal_.screen()); }

  // The terminal is as it was, with only what the shell itself has written.
  void check_clean(const std::string& ended) {
    REQUIRE(terminal_.shows(ended));
    CHECK(terminal_.is_cooked());
    const Shown seen(terminal_.screen());
    CHECK(seen.cursor);
    CHECK_FALSE(seen.other_screen);
    CHECK(seen.rows[0] == "before");
    CHECK_FALSE(seen.has("q quits"));
  }
  [[nodiscard]] pid_t watcher() const {
    for (const pid_t pid : terminal_.tree()) {
      if (pid != terminal_.pid()) return pid;
    }
    return -1;
  }

 private:
  Terminal terminal_;
};

TEST_CASE("a watch shows new locks, renewals and releases as they happen, in place", "[tsan][asan-server]") {
  Database database;
  const std::string owner = hold(database);
  Watching watching(database.url(), "200ms");
  REQUIRE(watching.shows(k_enter));
  REQUIRE(watching.shows("dblock: 1 held at "));
  REQUIRE(watching.shows("\n   k "));
  CHECK_FALSE(watching.terminal().is_cooked());
  hold(database, "second");
  REQUIRE(watching.shows("\n+  second "));
  REQUIRE(watching.shows("\n   second "));
  REQUIRE(dblock(database, {"renew", "--key", "k", "--owner", owner}).exit == exited(0));
  REQUIRE(watching.shows("\n*  k "));
  REQUIRE(watching.shows("\n   k "));
  release_lease(database, owner);
  REQUIRE(watching.shows("dblock: 1 held at "));
  REQUIRE(watching.shows(k_home));  // the whole of that picture
  const auto seen = watching.shown();
  CHECK_FALSE(seen.has("   k "));
  CHECK(seen.has("   second "));
  CHECK_FALSE(seen.has("before"));
  CHECK_FALSE(
      says(watching.terminal().screen(), "\x1b[2J"));  // no flicker: nothing is cleared before it is drawn
  watching.terminal().send("q");
  watching.check_clean("ended: 0");
}

TEST_CASE("every way out of a watch leaves the terminal as it was", "[tsan]") {
  const Database database;
  hold(database);
  for (const int signal : {0, SIGTERM, SIGHUP, SIGINT}) {
    INFO(signal);
    Watching watching(database.url(), "1h");
    REQUIRE(watching.shows("q quits"));
    REQUIRE(watching.shows("\n   k "));
    watching.terminal().send("xyz\x1b[A\n");  // what nobody has a use for
    if (signal != 0) {
      REQUIRE(::kill(watching.watcher(), signal) == 0);
    } else {
      watching.terminal().send("q");
    }
    watching.check_clean("ended: 0");
  }
}

TEST_CASE("Ctrl-C and Ctrl-Z at a watch, and a watch in the background", "[tsan][asan-local]") {
  const Database database;
  hold(database);
  Terminal terminal(interactive_bash(),
                    {"DBLOCK_DB=" + database.url(), "TERM=xterm", "NO_COLOR=1", "HISTFILE="}, 120);
  REQUIRE(terminal.shows("ready> "));
  terminal.send("bind 'set enable-bracketed-paste off'\n");
  REQUIRE(terminal.shows("ready> "));
  terminal.send(dblock_binary() + " inspect --watch 100ms &\n");
  REQUIRE(terminal.shows("ready> "));
  {
    Watching later(database.url(), "100ms");  // draws, though it has begun later
    REQUIRE(later.shows("\n   k "));
    REQUIRE(later.shows("\n   k "));
  }
  CHECK_FALSE(terminal.shows(k_enter, 100ms));  // the screen is the shell's
  terminal.send("fg\n");
  REQUIRE(terminal.shows(k_enter));
  REQUIRE(terminal.shows("\n   k "));
  terminal.send(k_ctrl_z);
  REQUIRE(terminal.shows(k_leave));
  REQUIRE(terminal.shows("Stopped"));
  REQUIRE(terminal.shows("ready> "));
  terminal.send("fg\n");
  REQUIRE(terminal.shows(k_enter));
  REQUIRE(terminal.shows("\n   k "));
  terminal.send(k_ctrl_c);
  REQUIRE(terminal.shows(k_leave));
  terminal.send("echo \"code: $?\"\n");
  CHECK(terminal.shows("code: 0"));
}

TEST_CASE("a watch follows the size of its window", "[asan-local]") {
  const Database database;
  for (int i = 10; i < 20; ++i) hold(database, "key-" + std::to_string(i), std::string(200, 'n') + "end");
  Watching watching(database.url(), "1h");
  REQUIRE(watching.shows("   key-19 "));
  REQUIRE(watching.shows("\x1b[J"));
  const auto fits = [&](std::size_t columns, std::size_t rows) {
    const auto seen = watching.shown();
    CHECK(seen.rows.size() <= rows);
    for (const auto& row : seen.rows) CHECK(width_of(row) < columns);
    return seen;
  };
  CHECK(fits(120, 40).has("…"));
  watching.terminal().resize(70, local_run() ? 9 : 8);  // of this host only: another line says so
  REQUIRE(watching.shows("… and 6 more"));
  REQUIRE(watching.shows("\x1b[J"));
  CHECK(fits(70, 9).has("   key-13 "));
  watching.terminal().resize(400, 50);
  REQUIRE(watching.shows(std::string(200, 'n') + "end"));
  REQUIRE(watching.shows("\x1b[J"));
  CHECK(fits(400, 50).has("   key-19 "));
  watching.terminal().send("q");
  watching.check_clean("ended: 0");
}

TEST_CASE("a watch survives an outage of the database and says so meanwhile", "[server][tsan][asan-server]") {
  ServerDatabase database;
  Proxy proxy(database.server());
  hold(database);
  Watching watching(proxy.url(database.name()), "200ms");
  REQUIRE(watching.shows("\n   k "));
  proxy.refuse(true);
  proxy.cut_all();
  REQUIRE(watching.shows("trouble: cannot list locks"));
  REQUIRE(watching.shows("\n   k "));  // as it was last known
  proxy.refuse(false);
  REQUIRE(wait_until([&] {
    (void)watching.terminal().shows("q quits", 300ms);
    (void)watching.terminal().shows("\x1b[J", 300ms);
    return !watching.shown().has("trouble");
  }));
  CHECK(watching.shown().has("   k "));
}

TEST_CASE("q ends a watch whose database does not answer, or not even to a new connection",
          "[server][tsan][asan-server]") {
  for (const bool connecting : {false, true}) {
    CHECK(best_of_some(7s, [&] {  // of 10 s for an answer
            ServerDatabase database;
            Proxy proxy(database.server());
            hold(database);
            Watching watching(proxy.url(database.name()) + "?connect-timeout=10m", "200ms");
            REQUIRE(watching.shows("\n   k "));
            proxy.stall();
            if (connecting) proxy.cut_all();
            REQUIRE(watching.shows("trouble: no answer from the database for "));
            const auto before = std::chrono::steady_clock::now();
            watching.terminal().send("q");
            watching.check_clean("ended: 0");
            return std::chrono::steady_clock::now() - before;
          }) < 7s);
  }
}

TEST_CASE("a watch that cannot begin fails as inspect does and touches no terminal") {
  for (const char* url : {"mysql://app@127.0.0.1:1/t", "sqlite:/dev/null/locks.db"}) {
    Watching watching(url, "1s");
    REQUIRE(watching.shows("dblock: exit "));
    REQUIRE(watching.shows("ended: "));
    CHECK_FALSE(says(watching.terminal().screen(), "\x1b["));
    CHECK_FALSE(watching.shown().has("ended: 0"));
  }
}

TEST_CASE("a watch ends when its terminal takes nothing") {
  DBLOCK_NEEDS(why_no_preload());
  const Database database;
  const TempDir directory;
  Terminal terminal(sh("exec " + dblock_binary() + " inspect --watch 1h 2>" + directory.file("err")),
                    with(failing("write", EIO, "terminal"), {"DBLOCK_DB=" + database.url(), "TERM=xterm"}));
  CHECK(terminal.wait() == exited(70));
  CHECK(says(read_file(directory.file("err")), "cannot write to the terminal: Input/output error"));
}

TEST_CASE("a watch ends when its terminal goes away, even if it ignores HUP", "[asan-local]") {
  const Database database;
  hold(database);
  for (const bool ignores : {false, true}) {
    const std::string watch = "exec " + dblock_binary() + " inspect --watch 1h";
    Terminal terminal(sh(ignores ? "trap '' HUP; " + watch : watch),
                      {"DBLOCK_DB=" + database.url(), "TERM=xterm"});
    REQUIRE(terminal.shows("q quits"));
    terminal.hang_up();
    CHECK(terminal.wait().has_value());
    CHECK(terminal.tree().empty());
  }
}

TEST_CASE("a watch ends when the reader of its pipe goes away") {
  const Database database;
  for (const bool ignores : {false, true}) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    auto spec = dblock_spawn(database, {"inspect", "--watch", "1h", "--json"});
    spec.stdout_fd = ends[1];
    if (ignores) spec.ignored_signals = {SIGPIPE};
    Process watch(spec);
    ::close(ends[1]);
    char first = 0;
    REQUIRE(::read(ends[0], &first, 1) == 1);
    CHECK(first == '{');
    ::close(ends[0]);
    if (ignores) {
      check_ends(watch, 70, {"stdout was closed, so nobody sees the table any more"});
    } else {
      CHECK(watch.wait() == killed_by(SIGPIPE));
      CHECK(watch.err().empty());
    }
  }
}

// Runs a watch until it has written so many lines.
Finished watched(const Database& database, const Words& options, std::size_t at_least,
                 const Words& env = {}) {
  Process watch(dblock_spawn(database, with({"inspect", "--watch", "100ms"}, options), env));
  REQUIRE(wait_until([&] { return lines(watch.out()).size() >= at_least; }));
  watch.signal(SIGTERM);
  const auto exit = watch.wait();
  return {exit, watch.out(), watch.err()};
}

TEST_CASE("a watch in JSON is one document a line", "[asan-local]") {
  const Database database;
  hold(database);
  for (const Words& options : {Words{"--json"}, Words{"--format", "json"}}) {
    const auto finished = watched(database, options, 3, {"TERM=xterm"});
    INFO(finished.out);
    CHECK(finished.exit == exited(0));
    CHECK(finished.err.empty());
    std::string before;
    for (const auto& line : lines(finished.out)) {
      const auto document = nlohmann::json::parse(line);
      CHECK(document.at("format") == 1);
      CHECK(document.at("locks").at(0).at("key") == "k");
      CHECK(document.at("server_time").get<std::string>() > before);
      before = document.at("server_time");
    }
  }
}

TEST_CASE("a watch without a terminal writes tables, and csv with one header") {
  const Database database;
  hold(database);
  const auto tables = watched(database, {}, 8, {"TERM=xterm"});
  INFO(tables.out);
  CHECK(tables.exit == exited(0));
  CHECK_FALSE(says(tables.out, "\x1b"));
  CHECK(count_of(tables.out, "\n\n") >= 2);
  CHECK(count_of(tables.out, "KEY ") == count_of(tables.out, "\n\n") + 1);
  const auto csv = watched(database, {"--format", "csv"}, 4);
  CHECK(count_of(csv.out, "server_time,key,") == 1);
  CHECK(count_of(csv.out, "Z,k,acquire,") + 1 == lines(csv.out).size());
}

TEST_CASE("a watch keeps one connection and asks what one inspect asks", "[server]") {
  ServerDatabase database;
  hold(database);
  const auto asked_by = [&](const Words& words, std::size_t pictures) {
    Proxy proxy(database.server());
    Process watch(dblock_spawn_at(proxy.url(database.name()), words));
    REQUIRE(wait_until([&] { return lines(watch.out()).size() >= pictures; }));
    watch.signal(SIGTERM);
    watch.wait();
    return std::pair(proxy.statements().size(), lines(watch.out()).size());
  };
  const auto [once, one] = asked_by({"inspect", "--json"}, 1);
  CHECK(one == 1);
  const auto [often, pictures] = asked_by({"inspect", "--json", "--watch", "100ms"}, 10);
  constexpr std::size_t k_a_listing = 3;  // locks, holders, who waits
  INFO(once << " for one, " << often << " for " << pictures);
  CHECK(often <= once + pictures * k_a_listing);  // what was asked last may not have been answered
}

TEST_CASE("at a terminal the table is coloured and as wide as that, and elsewhere it is neither") {
  const Database database;
  const std::string note = "https://ci.example.org/" + std::string(150, 'n') + "/4711";
  hold(database, "k", note);
  const auto at_terminal = [&](const Words& more, unsigned short columns) {
    Terminal terminal(dblock_spawn(database, {"inspect"}, more), columns);
    REQUIRE(terminal.wait() == exited(0));
    return terminal.screen();
  };
  CHECK(says(at_terminal({"TERM=xterm"}, 100), "\x1b[32mk\x1b[0m "));
  for (const auto& [env, width] :
       std::vector<std::pair<Words, std::size_t>>{{{"TERM=xterm", "NO_COLOR=1"}, 100},
                                                  {{"TERM=xterm", "NO_COLOR=1", "COLUMNS=90"}, 90},
                                                  {{}, 100}}) {
    const auto shown = at_terminal(env, 100);
    INFO(shown);
    CHECK_FALSE(says(shown, "\x1b"));
    CHECK(says(shown, "…"));
    CHECK(says(shown, "/4711\r\n"));
    for (const auto& line : lines(shown)) CHECK(width_of(line) <= width + 1);  // with the \r
  }
  const auto piped = dblock(database, {"inspect"}, {"TERM=xterm", "COLUMNS=60"});
  CHECK(says(piped.out, note));
  CHECK_FALSE(says(piped.out, "\x1b"));
  CHECK(says(dblock(database, {"--color", "always", "inspect"}).out, "\x1b[32mk\x1b[0m "));
}

}  // namespace
}  // namespace dblock::test
