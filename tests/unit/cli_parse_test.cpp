#include <string>
#include <vector>

#include "cli/command_line.hpp"
#include "cli/options/help.hpp"
#include "cli/options/parse.hpp"
#include "cli/options/password.hpp"
#include "support/catch.hpp"

namespace dblock::cli {
namespace {

using Words = std::vector<std::string>;

ParsedWords good(const Words& words) {
  auto parsed = parse_words(words);
  INFO((parsed.error ? parsed.error->message : ""));
  REQUIRE_FALSE(parsed.error.has_value());
  return parsed;
}

// --name and value of each option, in their order; a flag has none.
Words options(const Words& words) {
  Words found;
  for (const auto& option : good(words).options) {
    found.push_back("--" + std::string(option.name));
    if (find_option(option.name, k_any)->is_flag()) {
      CHECK(option.value == "true");
    } else {
      found.push_back(option.value);
    }
  }
  return found;
}

std::string refusal(const Words& words) {
  const auto parsed = parse_words(words);
  REQUIRE(parsed.error.has_value());
  CHECK(parsed.error->code == Errc::usage);
  return parsed.error->message;
}

TEST_CASE("options end at the first word that is not one") {
  const Words words{"run", "-k", "a", "make", "-c", "-k", "b", "--", "--ttl=1"};
  CHECK(options(words) == Words{"--key", "a"});
  CHECK(good(words).job == Words{"make", "-c", "-k", "b", "--", "--ttl=1"});
}

TEST_CASE("options end at a double dash that is not passed on") {
  CHECK(good({"run", "-k", "a", "--", "--odd", "--", "-c"}).job == Words{"--odd", "--", "-c"});
}

TEST_CASE("a value may look like an option or be empty") {
  CHECK(options({"run", "--key=--ttl", "true"}) == Words{"--key", "--ttl"});
  CHECK(options({"run", "--key", "-", "true"}) == Words{"--key", "-"});
  CHECK(options({"run", "--key=", "true"}) == Words{"--key", ""});
  CHECK(options({"run", "--note", "a=b", "true"}) == Words{"--note", "a=b"});
}

TEST_CASE("short options can be joined and carry their value") {
  CHECK(options({"run", "-nqkKEY", "true"}) == Words{"--wait", "0", "--quiet", "--key", "KEY"});
  CHECK(options({"run", "-w10s", "-k", "a", "true"}) == Words{"--wait", "10s", "--key", "a"});
  CHECK(options({"run", "-qw", "10s", "true"}) == Words{"--quiet", "--wait", "10s"});
}

TEST_CASE("the later of nonblock and wait is the later wait") {
  CHECK(options({"run", "-n", "-w", "5s", "true"}) == Words{"--wait", "0", "--wait", "5s"});
  CHECK(options({"run", "-w", "5s", "--nonblock", "true"}) == Words{"--wait", "5s", "--wait", "0"});
}

TEST_CASE("global options work before and after the subcommand") {
  const Words words{"--json", "--db", "x", "inspect", "-q", "--db=y"};
  CHECK(good(words).subcommand == Subcommand::inspect);
  CHECK(options(words) == Words{"--json", "--db", "x", "--quiet", "--db", "y"});
}

TEST_CASE("help and version end the reading") {
  CHECK(good({"run", "-h", "--nonsense"}).help);
  CHECK(good({"-V", "nonsense"}).version);
  CHECK(good({"-qh"}).help);
  CHECK(good({"--help", "run"}).subcommand == Subcommand::run);
  CHECK(good({"-q", "-h", "inspect"}).subcommand == Subcommand::inspect);
  CHECK_FALSE(good({"--help", "nonsense", "run"}).subcommand.has_value());
  CHECK_FALSE(good({"--help", "--", "run"}).subcommand.has_value());
  CHECK(good({"run", "--help", "inspect"}).subcommand == Subcommand::run);
  CHECK(good({"run", "true", "--help"}).job == Words{"true", "--help"});
}

TEST_CASE("unknown options and subcommands get the nearest suggestion") {
  CHECK_THAT(refusal({"run", "--waitt", "5s"}), Catch::Contains("did you mean --wait?"));
  CHECK_THAT(refusal({"run", "--hartbeat", "5s"}), Catch::Contains("--heartbeat"));
  CHECK_THAT(refusal({"run", "--random-delay", "5m"}), Catch::Contains("did you mean --splay?"));
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
  CHECK(parse_words({}).no_subcommand);
  CHECK(parse_words({"-q"}).no_subcommand);
  CHECK_FALSE(parse_words({"nonsense"}).no_subcommand);
}

TEST_CASE("a double dash is no option's value") {
  CHECK(refusal({"run", "--note", "--", "true"}) == "--note needs a value (TEXT)");
  CHECK(refusal({"run", "-qc", "--", "-k", "a"}) == "-c needs a value (STRING)");
}

TEST_CASE("values keep their bytes and their order across options") {
  CHECK(
      options({"inspect", "--key", "[a,b]", "--key", "", "--max-age", "--all", "--key", "a b", "--key={}"}) ==
      Words{"--key", "[a,b]", "--key", "", "--max-age", "--all", "--key", "a b", "--key", "{}"});
  CHECK(options({"inspect", "-k{}", "-k[a,b]", "-k%%", "-k", "%%", "--key=--key="}) ==
        Words{"--key", "{}", "--key", "[a,b]", "--key", "%%", "--key", "%%", "--key", "--key="});
  CHECK(options({"run", "--note", "--key=", "--note", "inspect", "-k=-x", "-k-x", "run.key"}) ==
        Words{"--note", "--key=", "--note", "inspect", "--key", "=-x", "--key", "-x"});
  CHECK(options({"inspect", "--all", "--all"}) == Words{"--all", "--all"});
}

TEST_CASE("an option that may lack its value takes the next word when it begins with a digit") {
  CHECK(options({"inspect", "--watch", "5s", "--all"}) == Words{"--watch", "5s", "--all"});
  CHECK(options({"inspect", "--watch", "--all"}) == Words{"--watch", "1s", "--all"});
  CHECK(options({"inspect", "--watch=no"}) == Words{"--watch", "no"});
  CHECK(options({"inspect", "--watch="}) == Words{"--watch", ""});
  CHECK(options({"inspect", "--watch"}) == Words{"--watch", "1s"});
}

TEST_CASE("words that a parser may give a meaning of its own have none") {
  CHECK(good({"run", "++", "-k"}).job == Words{"++", "-k"});
  CHECK(good({"run", "run"}).job == Words{"run"});
  CHECK(good({"run", "inspect.all"}).job == Words{"inspect.all"});
  CHECK_THAT(refusal({"run.inspect"}), Catch::Contains("unknown subcommand \"run.inspect\""));
  CHECK_THAT(refusal({"run", "--run.key=a"}), Catch::Contains("unknown option --run.key"));
  CHECK_THAT(refusal({"inspect", "-q-json"}), Catch::Contains("unknown option --;"));
  CHECK_THAT(refusal({"run", "-5"}), Catch::Contains("unknown option -5"));
  CHECK_THAT(refusal({"inspect", "--json="}), Catch::Contains("takes no value"));
}

TEST_CASE("the first fault is told, and nothing behind it is read") {
  const auto parsed = parse_words({"run", "-vZ", "-q", "-k"});
  CHECK_THAT(parsed.error->message, Catch::Contains("-Z"));
  REQUIRE(parsed.options.size() == 1);
  CHECK(parsed.options[0].name == "verbose");
  CHECK_FALSE(parse_words({"run", "--nonsense", "--help"}).help);
  CHECK_FALSE(parse_words({"--nonsense", "run"}).subcommand.has_value());
}

TEST_CASE("help, version and completion take words, and need no configuration") {
  const auto reads = [](const Words& words) {
    Environment environment;
    environment.variable = [](const std::string&) { return std::optional<std::string>(); };
    environment.system_config = "/dev/null/none";
    return read_command_line(parse_words(words), environment);
  };
  const auto about = [&](const Words& words) { return std::get<ShowHelp>(reads(words).request).about; };
  const auto refusal = [&](const Words& words) {
    const auto line = reads(words);
    return line.error ? line.error->message : "";
  };
  CHECK_FALSE(about({"help"}).has_value());
  CHECK(about({"help", "run"}) == Subcommand::run);
  CHECK(about({"-q", "help", "inspect"}) == Subcommand::inspect);
  CHECK(help_text(about({"help", "help"})) == help_text(std::nullopt));
  CHECK(help_text(about({"completion", "--help"})) == help_text(std::nullopt));
  CHECK_THAT(refusal({"help", "inspct"}), Catch::Contains("did you mean inspect?"));
  CHECK_FALSE(refusal({"help", "run", "acquire"}).empty());
  CHECK(std::holds_alternative<ShowVersion>(reads({"version"}).request));
  CHECK_FALSE(refusal({"version", "1"}).empty());
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const auto line = reads({"completion", shell});
    CHECK_THAT(std::string(std::get<ShowCompletion>(line.request).script),
               Catch::Contains(shell + " completion for dblock"));
  }
  for (const Words& words :
       {Words{"completion"}, Words{"completion", "tcsh"}, Words{"completion", "bash", "zsh"}})
    CHECK_THAT(refusal(words), Catch::Contains("bash, zsh or fish"));
  const auto run = parse_words({"run", "-k", "a", "help", "run"});
  CHECK(run.job == Words{"help", "run"});
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
  hide_passwords(argv.data(), parse_words(words));
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
