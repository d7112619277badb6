// The commented file that packages install as /etc/dblock.conf, against the table of options.
#include <algorithm>
#include <iterator>

#include "cli/options/config_file.hpp"
#include "cli_fixture.hpp"

namespace dblock::cli {
namespace {

// "#ttl = 2m" below "#[run]". Explanations have a blank after their '#'.
struct Offer {
  std::string section;
  std::string name;
  std::string value;

  [[nodiscard]] std::string line() const { return name + " = " + value; }
  [[nodiscard]] std::string file() const {
    return (section.empty() ? "" : "[" + section + "]\n") + line() + "\n";
  }
};

std::string packaged_text() {
  std::ifstream file(DBLOCK_PACKAGED_CONFIG);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Offer> offers() {
  std::istringstream lines(packaged_text());
  std::vector<Offer> found;
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#[")) section = line.substr(2, line.find(']') - 2);
    if (!line.starts_with('#') || line.size() < 2 || line[1] == ' ' || line[1] == '[') continue;
    const auto equals = line.find(" = ");
    INFO(line);
    REQUIRE(equals != std::string::npos);
    found.push_back({section, line.substr(1, equals - 1), line.substr(equals + 3)});
  }
  return found;
}

// What each subcommand needs besides.
Words words_for(Subcommand command) {
  const std::string name(spec_of(command).name);
  if (command == Subcommand::run) return {name, "-k", "a", "true"};
  if (command == Subcommand::acquire) return {name, "-k", "a", "--ttl", "1m"};
  if (command == Subcommand::renew || command == Subcommand::release)
    return {name, "-k", "a", "--owner", "x"};
  if (command == Subcommand::pause) return {name, "-k", "a", "--for", "1h"};
  if (command == Subcommand::resume || command == Subcommand::wait) return {name, "-k", "a"};
  if (command == Subcommand::completion) return {name, "bash"};
  return {name};
}

const OptionSpec* option_of(const Offer& offer) {
  const auto section = find_subcommand(offer.section);
  return find_option(offer.name, section ? scope_of(*section) : k_global | scope_of(Subcommand::run));
}

TEST_CASE("the packaged configuration file sets nothing") {
  for (const auto& command : subcommand_specs()) {
    const auto values = parse_config(packaged_text(), "dblock.conf", command.id);
    REQUIRE(values.has_value());
    CHECK(values->empty());
  }
}

TEST_CASE("a line added at the end of the packaged configuration file holds for all subcommands") {
  for (const auto& command : subcommand_specs()) {
    const auto values = parse_config(packaged_text() + "local = yes\n", "dblock.conf", command.id);
    REQUIRE(values.has_value());
    CHECK(values->size() == 1);
  }
}

TEST_CASE("each line that the packaged configuration file offers is accepted by every subcommand") {
  REQUIRE(offers().size() > 10);
  for (const Offer& offer : offers()) {
    World world;
    world.write("system.conf", offer.file());
    for (const auto& command : subcommand_specs()) {
      INFO(offer.file() << command.name);
      const auto line = world.read(words_for(command.id));
      INFO((line.error ? line.error->message : ""));
      CHECK_FALSE(line.error.has_value());
    }
    const auto section = find_subcommand(offer.section);
    const auto values = parse_config(offer.file(), "dblock.conf", section.value_or(Subcommand::run));
    REQUIRE(values.has_value());
    CHECK(values->size() == 1);  // it takes effect
  }
}

TEST_CASE("a line that the packaged configuration file offers shows the option's default") {
  // These have none: the file shows an example.
  const Words examples{"db", "local", "defaults-file", "stop-grace", "on-end"};
  for (const Offer& offer : offers()) {
    INFO(offer.line());
    const OptionSpec* const option = option_of(offer);
    REQUIRE(option != nullptr);
    const bool example = std::ranges::find(examples, offer.name) != examples.end();
    const bool has_default = !option->default_value.empty() || !option->default_note.empty();
    CHECK(example != has_default);
    if (!has_default) continue;
    // "TTL/6 up to 15s": with the default TTL it is what follows "up to".
    if (option->default_value.empty())
      CHECK_THAT(std::string(option->default_note), Catch::EndsWith(" up to " + offer.value));
    if (!option->default_value.empty()) CHECK(offer.value == option->default_value);
  }
}

TEST_CASE("all lines of the packaged configuration file's sections together change nothing") {
  std::string text;
  for (const Offer& offer : offers()) {
    if (offer.name != "db" && offer.name != "local" && offer.name != "defaults-file") text += offer.file();
  }
  World plain;
  World configured;
  configured.write("system.conf", text);
  const auto expected = plain.request<app::RunRequest>(words_for(Subcommand::run));
  const auto seen = configured.request<app::RunRequest>(words_for(Subcommand::run));
  CHECK(seen.timing.ttl == expected.timing.ttl);
  CHECK(seen.timing.heartbeat == expected.timing.heartbeat);
  CHECK(seen.timing.margin == expected.timing.margin);
  CHECK(seen.timing.kill_grace == expected.timing.kill_grace);
  CHECK(seen.conflict_exit_code == expected.conflict_exit_code);
  CHECK(seen.first_signal == expected.first_signal);
  CHECK(seen.warn_after == expected.warn_after);
}

}  // namespace
}  // namespace dblock::cli
