#include "cli_fixture.hpp"

namespace dblock::cli {
namespace {

const Words k_run{"run", "-k", "a", "true"};

Words run_with(const Words& options) {
  Words words{"run", "-k", "a"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("true");
  return words;
}

Micros ttl_of(const World& world, const Words& words = k_run) {
  return world.request<app::RunRequest>(words).timing.ttl;
}

TEST_CASE("flag beats environment beats user file beats system file beats default") {
  World world;
  world.set_home();
  CHECK(ttl_of(world) == 2min);
  world.write("system.conf", "ttl = 3m\nmargin = 1s\n");
  CHECK(ttl_of(world) == 3min);
  world.write(".config/dblock.conf", "ttl = 4m\n");
  CHECK(ttl_of(world) == 4min);
  CHECK(world.request<app::RunRequest>(k_run).timing.margin == 1s);  // option by option
  world.set("DBLOCK_TTL", "5m");
  CHECK(ttl_of(world) == 5min);
  CHECK(ttl_of(world, run_with({"--ttl", "6m"})) == 6min);
  CHECK(ttl_of(world, run_with({"--ttl", "6m", "--ttl=7m"})) == 7min);
}

TEST_CASE("config replaces both usual files and must exist") {
  World world;
  world.set_home().write("system.conf", "ttl = 3m\n").write(".config/dblock.conf", "nonsense\n");
  world.write("mine", "margin = 2s\n");
  CHECK(ttl_of(world, {"--config", world.path("mine"), "run", "-k", "a", "true"}) == 2min);
  world.set("DBLOCK_CONFIG", world.path("mine"));
  CHECK(world.request<app::RunRequest>(k_run).timing.margin == 2s);
  const auto error = world.refusal({"--config", world.path("absent"), "run", "-k", "a", "true"});
  CHECK(error.code == Errc::config);
  CHECK_THAT(error.message, Catch::Contains("absent"));
}

TEST_CASE("xdg config home moves the user's file unless it is relative") {
  World world;
  world.set_home().write("xdg/dblock.conf", "ttl = 9m\n").write(".config/dblock.conf", "ttl = 8m\n");
  world.set("XDG_CONFIG_HOME", world.path("xdg"));
  CHECK(ttl_of(world) == 9min);
  world.set("XDG_CONFIG_HOME", "xdg");
  CHECK(ttl_of(world) == 8min);
}

TEST_CASE("a section sets options of its subcommand only") {
  World world;
  world.write("system.conf",
              "# comment\n; comment\n\n  wait=1m\n[run]\nwait = 2m\nnote = a = b # c\n[acquire]\nttl = 1h\n"
              "[inspect]\nall = yes\n");
  CHECK(world.request<app::RunRequest>(k_run).wait.limit == 2min);
  CHECK(world.request<app::RunRequest>(k_run).identity.note == "a = b # c");
  CHECK(ttl_of(world) == 2min);
  const auto acquire = world.request<app::AcquireRequest>({"acquire", "-k", "a"});
  CHECK(acquire.timing.ttl == 1h);
  CHECK(acquire.wait.limit == 1min);
  CHECK(world.request<app::InspectRequest>({"inspect"}).all);
}

TEST_CASE("a line for run and acquire does not reach other subcommands") {
  World world;
  world.write("system.conf", "wait = 1m\nttl = 5m\nforget-after = 30d\nformat = shell\n");
  world.set("DBLOCK_WAIT", "2m").set("DBLOCK_TTL", "3m").set("DBLOCK_FORMAT", "owner");
  CHECK_FALSE(world.request<app::RenewRequest>({"renew", "--key", "a", "--owner", "o"}).ttl.has_value());
  CHECK_FALSE(world.request<app::ReleaseRequest>({"release", "--key", "a", "--owner", "o"}).wait.has_value());
  CHECK(world.request<app::ReapRequest>({"reap"}).forget_after == 24h * 30);
  CHECK_FALSE(world.read({"inspect"}).output.shell);
}

TEST_CASE("faults in a configuration file are 78 with file and line") {
  World world;
  const std::vector<std::pair<std::string, std::string>> faults{
      {"# fine\nfrobnicate = 1\n", "system.conf:2: unknown option"},
      {"[run]\nforce = yes\n", "system.conf:2"},
      {"[inspect]\nttl = 1m\n", "system.conf:2"},
      {"just words\n", "option = value"},
      {"[nonsense]\n", "system.conf:1"},
      {"[run\n", "system.conf:1"},
      {"config = x\n", "unknown option"},
      {"wiat = 5s\n", "did you mean --wait?"},
      {"password_file = /x\n", "unknown option \"password_file\"; write password-file"},
      {"DBLOCK_DB = mysql://h/d\n", "unknown option \"DBLOCK_DB\"; write db"},
      {"export DBLOCK_WAIT=5s\n", "unknown option \"export DBLOCK_WAIT\"; write wait"},
      {"--local = yes\n", "unknown option \"--local\"; write local"},
      {"[run]\nWait = 5s\n", "system.conf:2: unknown option \"Wait\"; write wait"},
      {"[Run]\n", "system.conf:1: unknown section \"Run\"; write [run]"},
      {"password = x\n",
       "unknown option \"password\"; write the password into a file of its own, and here "
       "password-file = FILE"},
      {"[run]\nPassword = x\n", "system.conf:2: unknown option \"Password\"; write the password into a file"},
      {"tls = require\n", "did you mean tls in the URL of --db?"},
      {"db =\n", "system.conf:1: db = names no database"},
      {"ttl = 5\n", "system.conf: ttl: "},
      {"quiet = perhaps\n", "system.conf: quiet: "},
  };
  for (const auto& [text, part] : faults) {
    INFO(text);
    const auto error = world.write("system.conf", text).refusal(k_run);
    CHECK(error.code == Errc::config);
    CHECK_THAT(error.message, Catch::Contains(part));
  }
}

TEST_CASE("a name that may be a secret's part is shown for no unknown option or section") {
  World world;
  for (const std::string line : {"hunter2 = x", "SGVsbG8 = x", "[hunter2]"})
    CHECK_THAT(world.write("system.conf", line + "\n").refusal(k_run).message,
               !Catch::Contains("hunter2") && !Catch::Contains("SGVsbG8"));
}

TEST_CASE("a byte order mark before a configuration file is no part of its first option") {
  World world;
  world.write("system.conf", "\xef\xbb\xbfquiet = yes\nttl = 5m\n");
  CHECK(ttl_of(world) == 5min);
}

TEST_CASE("where the locks are is said above the sections of a configuration file") {
  for (const std::string line : {"db = mysql://h/d", "local = yes", "defaults-file = /x"}) {
    World world;
    world.write("system.conf", "# fine\n[run]\n" + line + "\n");
    for (const Words& words : {k_run, Words{"inspect"}}) {
      CAPTURE(line, words);
      const auto error = world.refusal(words);
      CHECK(error.code == Errc::config);
      CHECK_THAT(error.message, Catch::Contains("system.conf:3: " + line.substr(0, line.find(' '))) &&
                                    Catch::Contains("[run]") && Catch::Contains("is global") &&
                                    Catch::Contains("above the first section"));
    }
  }
}

TEST_CASE("a comment behind a URL in a configuration file is refused with file, line and value") {
  const auto refused = [](const std::string& value) {
    World world;
    const auto error = world.write("system.conf", "ttl = 5m\ndb = " + value + "\n").refusal(k_run);
    CHECK(error.code == Errc::config);
    CHECK_THAT(error.message, Catch::Contains("system.conf:2: db =") && Catch::Contains("comment") &&
                                  !Catch::Contains("hunter2"));
    return error.message;
  };
  for (const std::string url : {"mysql://jobs@db1/locks?tls=require", "sqlite:/var/lib/x.db"}) {
    for (const std::string comment : {"  # prod", " ; prod", "\t# prod # db1"}) {
      CHECK_THAT(refused(url + comment), Catch::Contains("\"" + url + "\""));
      CHECK_THAT(refused("\"" + url + "\"" + comment), Catch::Contains("\"" + url + "\""));
      CHECK_THAT(refused("'" + url + "'" + comment), Catch::Contains("\"" + url + "\""));
    }
  }
  refused("\"mysql://jobs:hunter2@db1/locks\"  # prod");
  refused("mysql://jobs:hunter2?x@db1/locks # prod");
  refused("mysql://db1/locks?password-command=echo%20hunter2 # prod");
  World world;
  CHECK(world.write("system.conf", "db = sqlite:/a#b;c\n").request<app::RunRequest>(k_run).database.url ==
        "sqlite:/a#b;c");
}

TEST_CASE("one pair of quotes around a whole value in a configuration file is taken off") {
  World world;
  const auto note = [&](const std::string& value) {
    return world.write("system.conf", "note = " + value + "\n").request<app::RunRequest>(k_run).identity.note;
  };
  CHECK(note("\"a b\"") == "a b");
  CHECK(note("'a \"b\"'") == "a \"b\"");
  CHECK(note("''").empty());
  CHECK(note("\"a\" \"b\"") == "\"a\" \"b\"");
  CHECK(note("\"a'") == "\"a'");
  CHECK(note("it's") == "it's");
  CHECK(note("\"") == "\"");
}

TEST_CASE("a bad value names the variable or option it came from") {
  World world;
  world.set("DBLOCK_TTL", "5");
  CHECK_THAT(world.refusal(k_run).message, Catch::StartsWith("DBLOCK_TTL: "));
  CHECK(world.refusal(k_run).code == Errc::usage);
  CHECK_THAT(world.refusal(run_with({"--ttl", "-1s"})).message, Catch::StartsWith("--ttl: "));
}

TEST_CASE("flags can be switched by variables in several spellings") {
  for (const auto& [text, wanted] : std::map<std::string, bool>{{"1", true},
                                                                {"true", true},
                                                                {"Yes", true},
                                                                {"ON", true},
                                                                {"0", false},
                                                                {"false", false},
                                                                {"no", false},
                                                                {"off", false},
                                                                {"", false}}) {
    World world;
    world.set("DBLOCK_QUIET", text).set("DBLOCK_RECORD_ARGS", text);
    CHECK(world.read(k_run).log.quiet == wanted);
    CHECK(world.request<app::RunRequest>(k_run).record_args == wanted);
  }
  World world;
  world.set("DBLOCK_QUIET", "maybe");
  CHECK_THAT(world.refusal(k_run).message, Catch::StartsWith("DBLOCK_QUIET: "));
}

TEST_CASE("the stronger of quiet and verbose wins and the same place twice is refused") {
  World world;
  world.set("DBLOCK_QUIET", "1");
  const auto line = world.read(run_with({"-v"}));
  CHECK(line.log.verbose);
  CHECK_FALSE(line.log.quiet);
  CHECK(world.refusal(run_with({"-q", "-v"})).code == Errc::usage);
}

TEST_CASE("the key is not read from the environment but its variables are for renew and release") {
  World world;
  world.set("DBLOCK_KEY", "k").set("DBLOCK_OWNER", "o");
  CHECK_THAT(world.refusal({"run", "true"}).message, Catch::Contains("--key"));
  CHECK_THAT(world.refusal({"acquire", "--ttl", "5s"}).message, Catch::Contains("--key"));
  const auto renew = world.request<app::RenewRequest>({"renew"});
  CHECK(renew.key.bytes() == "k");
  CHECK(renew.owner.text == "o");
  CHECK(world.request<app::ReleaseRequest>({"release", "-k", "other"}).key.bytes() == "other");
}

TEST_CASE("nonblock of a stronger place beats wait of a weaker one and the other way round") {
  World world;
  world.set("DBLOCK_WAIT", "1m");
  CHECK(world.request<app::RunRequest>(run_with({"-n"})).wait.limit == 0s);
  CHECK(world.request<app::RunRequest>(run_with({"-n", "-w", "forever"})).wait.limit == std::nullopt);
  World once;
  once.set("DBLOCK_NONBLOCK", "1").write("system.conf", "wait = 1m\n");
  CHECK(once.request<app::RunRequest>(k_run).wait.limit == 0s);
  CHECK(once.request<app::RunRequest>(run_with({"-w", "5s"})).wait.limit == 5s);
}

TEST_CASE("help needs no sane configuration") {
  World world;
  world.set("DBLOCK_QUIET", "maybe").write("system.conf", "nonsense\n");
  CHECK(std::holds_alternative<ShowHelp>(world.read({"run", "--help"}).request));
  CHECK(std::holds_alternative<ShowVersion>(world.read({"--version"}).request));
}

}  // namespace
}  // namespace dblock::cli
