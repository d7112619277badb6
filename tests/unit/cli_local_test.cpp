// Which store is meant: --local against --db, in every pair of places where they can be said.
#include <array>

#include "cli_fixture.hpp"

namespace dblock::cli {
namespace {

const std::string k_url = "mysql://db1/locks";

enum class Place { system_config, user_config, environment, flag };  // weaker ones first
constexpr std::array k_places{Place::system_config, Place::user_config, Place::environment, Place::flag};

// One thing said in one place.
struct Word {
  Place place;
  std::string option;
  std::string value;
};

// What `inspect` is to look at when `said` has been said.
CommandLine hear(const std::vector<Word>& said) {
  World world;
  world.set_home();
  Words words{"inspect"};
  std::string system_config;
  std::string user_config;
  for (const auto& [place, option, value] : said) {
    const std::string line = option + " = " + value + "\n";
    if (place == Place::system_config) system_config += line;
    if (place == Place::user_config) user_config += line;
    if (place == Place::environment) world.set(option == "db" ? "DBLOCK_DB" : "DBLOCK_LOCAL", value);
    if (place != Place::flag) continue;
    words.push_back("--" + option);
    if (option == "db") words.push_back(value);
  }
  world.write("system.conf", system_config).write(".config/dblock.conf", user_config);
  return world.read(words);
}

store::SettingsSources sources_of(const std::vector<Word>& said) {
  const auto line = hear(said);
  INFO((line.error ? line.error->message : ""));
  REQUIRE_FALSE(line.error.has_value());
  return std::get<app::InspectRequest>(line.request).database;
}

TEST_CASE("local can be said in every place where an option can") {
  CHECK_FALSE(sources_of({}).local);
  for (const auto place : k_places) {
    CAPTURE(static_cast<int>(place));
    const auto sources = sources_of({{place, "local", "yes"}});
    CHECK(sources.local);
    CHECK_FALSE(sources.url);
  }
}

TEST_CASE("of local and db the one said in the stronger place wins and the same place twice is 78") {
  for (const auto local : k_places) {
    for (const auto db : k_places) {
      CAPTURE(static_cast<int>(local), static_cast<int>(db));
      const std::vector<Word> said{{local, "local", "1"}, {db, "db", k_url}};
      if (local == db) {
        const auto line = hear(said);
        REQUIRE(line.error);
        CHECK(line.error->code == Errc::config);
        continue;
      }
      const auto sources = sources_of(said);
      CHECK(sources.local == (local > db));
      CHECK(sources.url == (local > db ? std::nullopt : std::optional(k_url)));
      CHECK(sources.url_from_command_line == (db == Place::flag));
    }
  }
}

TEST_CASE("the refusal of local and db names both as they were written") {
  const auto message = [](Place place) {
    const auto line = hear({{place, "local", "1"}, {place, "db", "sqlite:/x.db"}});
    REQUIRE(line.error);
    return line.error->message;
  };
  using Catch::Contains;
  CHECK_THAT(message(Place::flag), Contains("--local") && Contains("--db"));
  CHECK_THAT(message(Place::environment), Contains("DBLOCK_LOCAL") && Contains("DBLOCK_DB"));
  CHECK_THAT(message(Place::user_config), Contains("dblock.conf: local") && Contains("dblock.conf: db"));
  CHECK_THAT(message(Place::system_config), Contains("system.conf: local") && Contains("system.conf: db"));
}

TEST_CASE("a false local is as if it had not been said but outranks a weaker true one") {
  for (const auto place : {Place::system_config, Place::user_config, Place::environment}) {
    CAPTURE(static_cast<int>(place));
    CHECK_FALSE(sources_of({{place, "local", "no"}}).local);
    CHECK(sources_of({{place, "local", "no"}, {place, "db", k_url}}).url == k_url);
    CHECK(sources_of({{Place::flag, "local", ""}, {place, "local", "no"}}).local);
  }
  const std::vector<Word> denied{{Place::environment, "local", "0"}, {Place::user_config, "local", "yes"}};
  CHECK_FALSE(sources_of(denied).local);
  auto with_url = denied;
  with_url.push_back({Place::system_config, "db", k_url});
  CHECK_FALSE(sources_of(with_url).local);
  CHECK(sources_of(with_url).url == k_url);
}

TEST_CASE("every subcommand takes local") {
  World world;
  world.set("DBLOCK_LOCAL", "1").set("DBLOCK_KEY", "k").set("DBLOCK_OWNER", "o");
  CHECK(world.request<app::RunRequest>({"run", "-k", "a", "true"}).database.local);
  CHECK(world.request<app::AcquireRequest>({"acquire", "-k", "a", "--ttl", "5s"}).database.local);
  CHECK(world.request<app::RenewRequest>({"renew"}).database.local);
  CHECK(world.request<app::ReleaseRequest>({"release"}).database.local);
  CHECK(world.request<app::InspectRequest>({"inspect"}).database.local);
  CHECK(world.request<app::ReapRequest>({"reap"}).database.local);
  CHECK(world.request<app::MigrateRequest>({"migrate"}).database.local);
  world.set("DBLOCK_DB", k_url);
  for (const Words& words :
       {Words{"run", "-k", "a", "true"}, Words{"acquire", "-k", "a", "--ttl", "5s"}, Words{"renew"},
        Words{"release"}, Words{"inspect"}, Words{"reap"}, Words{"migrate"}}) {
    CAPTURE(words);
    CHECK(world.refusal(words).code == Errc::config);
  }
}

TEST_CASE("local is a global option and takes no value") {
  World world;
  CHECK(world.request<app::RunRequest>({"--local", "run", "-k", "a", "true"}).database.local);
  CHECK(world.request<app::RunRequest>({"run", "--local", "-k", "a", "true"}).database.local);
  const auto job = world.request<app::RunRequest>({"run", "-k", "a", "true", "--local"});
  CHECK_FALSE(job.database.local);
  CHECK(job.command == Words{"true", "--local"});
  CHECK(world.refusal({"inspect", "--local=no"}).code == Errc::usage);
  world.set("DBLOCK_LOCAL", "perhaps");
  CHECK_THAT(world.refusal({"inspect"}).message, Catch::StartsWith("DBLOCK_LOCAL: "));
}

TEST_CASE("who and where a local store is for comes from the surroundings") {
  World world;
  world.set("DBLOCK_LOCAL", "1").set("HOME", "/h").set("XDG_STATE_HOME", "/s");
  const auto mine = world.request<app::InspectRequest>({"inspect"}).database;
  CHECK_FALSE(mine.root);
  CHECK(mine.home == "/h");
  CHECK(mine.state_home == "/s");
  CHECK(world.set_root().request<app::InspectRequest>({"inspect"}).database.root);
}

}  // namespace
}  // namespace dblock::cli
