#include <string>
#include <vector>

#include "cli/collect.hpp"
#include "cli/password.hpp"
#include "cli/split.hpp"
#include "support/catch.hpp"

namespace dblock::cli {
namespace {

using Words = std::vector<std::string>;

SplitWords good(const Words& words) {
  auto split = split_words(words);
  INFO((split.error ? split.error->message : ""));
  REQUIRE_FALSE(split.error.has_value());
  return split;
}

std::string refusal(const Words& words) {
  const auto split = split_words(words);
  REQUIRE(split.error.has_value());
  CHECK(split.error->code == Errc::usage);
  return split.error->message;
}

TEST_CASE("options end at the first word that is not one") {
  const auto split = good({"run", "-k", "a", "make", "-c", "-k", "b", "--", "--ttl=1"});
  CHECK(split.options == Words{"--key", "a"});
  CHECK(split.job == Words{"make", "-c", "-k", "b", "--", "--ttl=1"});
}

TEST_CASE("options end at a double dash that is not passed on") {
  const auto split = good({"run", "-k", "a", "--", "--odd", "--", "-c"});
  CHECK(split.job == Words{"--odd", "--", "-c"});
}

TEST_CASE("a value may look like an option or be empty") {
  CHECK(good({"run", "--key=--ttl", "true"}).options == Words{"--key", "--ttl"});
  CHECK(good({"run", "--key", "-", "true"}).options == Words{"--key", "-"});
  CHECK(good({"run", "--key=", "true"}).options == Words{"--key", ""});
  CHECK(good({"run", "-c", "--", "-k", "a"}).options == Words{"--command", "--", "--key", "a"});
  CHECK(good({"run", "--note", "a=b", "true"}).options == Words{"--note", "a=b"});
}

TEST_CASE("short options can be joined and carry their value") {
  CHECK(good({"run", "-nqkKEY", "true"}).options == Words{"--wait", "0", "--quiet", "--key", "KEY"});
  CHECK(good({"run", "-w10s", "-k", "a", "true"}).options == Words{"--wait", "10s", "--key", "a"});
  CHECK(good({"run", "-qw", "10s", "true"}).options == Words{"--quiet", "--wait", "10s"});
}

TEST_CASE("the later of nonblock and wait is the later wait") {
  CHECK(good({"run", "-n", "-w", "5s", "true"}).options == Words{"--wait", "0", "--wait", "5s"});
  CHECK(good({"run", "-w", "5s", "--nonblock", "true"}).options == Words{"--wait", "5s", "--wait", "0"});
}

TEST_CASE("global options work before and after the subcommand") {
  const auto split = good({"--json", "--db", "x", "inspect", "-q", "--db=y"});
  CHECK(split.subcommand == Subcommand::inspect);
  CHECK(split.options == Words{"--json", "--db", "x", "--quiet", "--db", "y"});
  CHECK(split.database_words == std::vector<std::size_t>{2, 5});
}

TEST_CASE("help and version end the reading") {
  CHECK(good({"run", "-h", "--nonsense"}).help);
  CHECK(good({"-V", "nonsense"}).version);
  CHECK(good({"-qh"}).help);
  CHECK(good({"run", "true", "--help"}).job == Words{"true", "--help"});
}

TEST_CASE("unknown options and subcommands get the nearest suggestion") {
  CHECK_THAT(refusal({"run", "--waitt", "5s"}), Catch::Contains("did you mean --wait?"));
  CHECK_THAT(refusal({"run", "--hartbeat", "5s"}), Catch::Contains("--heartbeat"));
  CHECK_THAT(refusal({"aquire"}), Catch::Contains("did you mean acquire?"));
  CHECK_THAT(refusal({"run", "--frobnicate"}), !Catch::Contains("did you mean"));
  CHECK_THAT(refusal({"run", "-Z"}), Catch::Contains("-Z"));
}

TEST_CASE("an option in the wrong place is told where it belongs") {
  CHECK_THAT(refusal({"--key", "a", "run", "true"}), Catch::Contains("after its subcommand"));
  CHECK_THAT(refusal({"run", "--forget-after", "1d"}), Catch::Contains("reap"));
}

TEST_CASE("missing and superfluous values and words are refused") {
  CHECK_THAT(refusal({"run", "--key"}), Catch::Contains("needs a value"));
  CHECK_THAT(refusal({"run", "-k"}), Catch::Contains("needs a value"));
  CHECK_THAT(refusal({"--json=yes", "inspect"}), Catch::Contains("takes no value"));
  CHECK_THAT(refusal({"inspect", "word"}), Catch::Contains("word"));
  CHECK_THAT(refusal({"inspect", "--", "word"}), Catch::Contains("word"));
  refusal({"--", "run"});
  CHECK(split_words({}).no_subcommand);
  CHECK(split_words({"-q"}).no_subcommand);
  CHECK_FALSE(split_words({"nonsense"}).no_subcommand);
}

TEST_CASE("collected values keep their bytes and their order") {
  const auto scope = k_global | scope_of(Subcommand::inspect);
  const auto raw = collect_options({"--key", "[a,b]", "--key", "", "--key", "--all", "--key", "a b"}, scope);
  REQUIRE(raw.has_value());
  Words values;
  for (const auto& option : *raw) values.push_back(option.value);
  CHECK(values == Words{"[a,b]", "", "--all", "a b"});
  const auto flags = collect_options({"--all", "--all"}, scope);
  REQUIRE(flags.has_value());
  CHECK(flags->front().value == "true");
}

TEST_CASE("a password on the command line is overwritten but not the job's words") {
  std::vector<std::string> words{
      "--db", "mysql://u:pw@h/d", "run", "-k", "a", "--db=mysql://u:p@w/x@h/d", "echo",
      "--db", "mysql://u:job@h/d"};
  auto area = words;
  std::string program = "dblock";
  std::vector<char*> argv{program.data()};
  for (auto& word : area) argv.push_back(word.data());
  argv.push_back(nullptr);
  hide_passwords(argv.data(), words);
  CHECK(area[1] == "mysql://u:xx@h/d");
  CHECK(area[5] == "--db=mysql://u:xxxxx@h/d");
  CHECK(area[8] == "mysql://u:job@h/d");
}

TEST_CASE("a url without a password is left alone") {
  for (const std::string url : {"mysql://u@h:3306/d", "mysql://h:3306/d", "sqlite:x", "", "mysql:///d"}) {
    auto copy = url;
    mask_url_password(copy.data());
    CHECK(copy == url);
  }
}

}  // namespace
}  // namespace dblock::cli
