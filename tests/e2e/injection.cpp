// Nothing that a user, a script or a job says can change what a statement means, whatever the server's modes
// and character sets are.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using Json = nlohmann::json;

// Quotes, escapes, comments, patterns, parameters; and letters whose UTF-8 swallows the quote or backslash
// after them when it is read as GBK or Shift-JIS.
const std::vector<std::string>& hostile_texts() {
  static const std::vector<std::string> all{
      "'; DROP TABLE dblock_lock; -- ",
      "' OR '1'='1",
      "\\' OR 1=1 #",
      "\"; DELETE FROM dblock_lock; -- ",
      "\" OR \"\"=\"",
      "`;DROP TABLE dblock_lock;`",
      "x'27' OR 1=1",
      "\\",
      "\\\\'",
      "%",
      "_%",
      "by%stander",
      "*/ UNION SELECT 1 /*",
      "/*! DROP TABLE dblock_lock */",
      ":key ?1 @a $b",
      "$(touch owned) `touch owned` ;&|<>",
      "\xe8\xaa\xa0' OR 1=1 -- ",
      "\xe8\xaa\xa0\\' OR 1=1 -- ",
      "\xc2\xbf' OR 1=1 -- ",
      "\xe8\xa1\xa8' OR 1=1 -- ",
  };
  return all;
}

// As both stores write it; the connection of the test itself may be one that misreads text.
std::string hex(const std::string& text) {
  std::string digits;
  for (const char c : text) {
    constexpr const char* k_digits = "0123456789ABCDEF";
    digits += k_digits[static_cast<unsigned char>(c) >> 4U];
    digits += k_digits[static_cast<unsigned char>(c) & 15U];
  }
  return digits;
}

std::string acquired(const Database& database, const Words& options, const std::string& key) {
  const auto finished = dblock(database, with({"acquire", "--json", "--ttl", "1h", "--key=" + key}, options));
  INFO(finished.err);
  REQUIRE(finished.exit == exited(0));
  return Json::parse(finished.out).at("owner");
}

// Every word that a command takes as text, through every verb, beside a lock that must not notice.
void attack_with(Database& database, const std::string& text, const std::string& bystander,
                 const std::string& bystanders_owner) {
  const std::string before = database.row(bystander);
  const auto run = dblock(
      database, {"run", "--key=" + text, "--note=" + text, "--record-args", "--", "true", text, "'"},
      {"DBLOCK_HOLDER=" + text, "DBLOCK_HELD=" + text + "\t" + text + "\t" + text, "DBLOCK_OWNER=" + text});
  INFO(run.err);
  CHECK(run.exit == exited(0));
  const std::string owner = acquired(database, {"--note=" + text}, text);
  CHECK(database.column(text, "lock_value") == owner);
  CHECK(database.column(text, "HEX(holder_note)") == hex(text));

  const auto shown = inspected(database, {"--key=" + text}).at("locks");
  REQUIRE(shown.size() == 1);
  CHECK(shown.at(0).at("key") == text);
  CHECK(shown.at(0).at("note") == text);
  const auto by_prefix = inspected(database, {"--prefix=" + text});
  for (const auto& lock : by_prefix.at("locks")) CHECK(lock.at("key").get<std::string>().starts_with(text));
  CHECK_FALSE(by_prefix.at("locks").empty());

  for (const std::string& forged : {text, bystanders_owner + text, bystanders_owner + "' OR '1'='1"}) {
    for (const char* verb : {"renew", "release"}) {
      const auto finished = dblock(database, {verb, "--key=" + bystander, "--owner=" + forged});
      INFO(verb << ": " << finished.err);
      CHECK(finished.exit == exited(76));
    }
  }
  CHECK(dblock(database, {"release", "--key=" + bystander, "--force", "--token=" + text}).exit == exited(64));
  CHECK(dblock(database, {"reap"}).exit == exited(0));
  CHECK(dblock(database, {"release", "--key=" + text, "--owner=" + owner}).exit == exited(0));
  CHECK(database.row(bystander) == before);
}

void attack(Database& database) {
  const std::string bystander = "by-stander";
  const std::string owner = acquired(database, {}, bystander);
  for (const auto& text : hostile_texts()) {
    CAPTURE(text);
    attack_with(database, text, bystander, owner);
  }
  // All rows are there, each under its own name, and no word was run by a shell.
  CHECK(database.rows() == static_cast<long long>(hostile_texts().size()) + 1);
  CHECK(dblock(database, {"release", "--key", bystander, "--owner", owner}).exit == exited(0));
}

TEST_CASE("no text that a user gives changes what a statement means", "[safety]") {
  Database database;
  attack(database);
}

TEST_CASE("nor does it under the modes and character sets that make servers misread text",
          "[server][safety][other-servers]") {
  const Server server({"--sql-mode=NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT",
                       "--character-set-server=gbk", "--collation-server=gbk_chinese_ci",
                       "--loose-skip-character-set-client-handshake", "--init-connect=SET NAMES sjis"});
  ServerDatabase database(server.address());
  attack(database);
}

TEST_CASE("patterns in keys and prefixes are letters like others") {
  Database database;
  for (const char* key : {"a%b", "a_b", "axb", "a", "A", "\\a", "a\\%b"}) acquired(database, {}, key);
  const auto keys_with = [&](const Words& selection) {
    std::vector<std::string> keys;
    const auto document = inspected(database, selection);
    for (const auto& lock : document.at("locks")) keys.push_back(lock.at("key"));
    std::ranges::sort(keys);
    return keys;
  };
  using Keys = std::vector<std::string>;
  CHECK(keys_with({"--prefix", "a%"}) == Keys{"a%b"});
  CHECK(keys_with({"--prefix", "a_"}) == Keys{"a_b"});
  CHECK(keys_with({"--prefix", "\\"}) == Keys{"\\a"});
  CHECK(keys_with({"--prefix", "%"}).empty());
  CHECK(keys_with({"--prefix", "a\\"}) == Keys{"a\\%b"});
  CHECK(keys_with({"--key", "a%b"}) == Keys{"a%b"});
  CHECK(keys_with({"--key", "a"}) == Keys{"a"});
}

TEST_CASE("bytes that are no text are refused before any store sees them") {
  Database database;
  for (const char* key : {"\xbf'", "\xbf\\'", "a\xff", "\xc0\xa7 OR 1=1"}) {
    CAPTURE(key);
    CHECK(dblock(database, {"run", "--key=" + std::string(key), "--", "true"}).exit == exited(64));
  }
  // In a note they do no harm: what is no UTF-8 is replaced.
  CHECK(dblock(database, {"run", "--key=k", "--note=\xbf' OR 1=1", "--", "true"}).exit == exited(0));
  CHECK(database.column("k", "holder_note") == "\xef\xbf\xbd' OR 1=1");
  CHECK(database.rows() == 1);
}

TEST_CASE("DBLOCK_HELD cannot be forged without the holder's owner id", "[safety]") {
  Database database;
  const std::string owner = acquired(database, {}, "k");
  const std::string store = database.url();
  const auto told = dblock(database, run_words("other", {}, sh("printf %s \"$DBLOCK_HELD\"")));
  REQUIRE(says(told.out, "other\t"));
  const std::string tail = told.out.substr(told.out.rfind('\t'));  // the store, as dblock names it
  for (const std::string& guess :
       {std::string("' OR '1'='1"), std::string("%"), std::string(owner.size(), '_'),
        owner.substr(0, owner.size() - 1), owner + " "}) {
    CAPTURE(guess);
    const auto nested = dblock(database, run_words("k", {}, {"true"}), {"DBLOCK_HELD=k\t" + guess + tail});
    CHECK(nested.exit == exited(75));
    CHECK(database.column("k", "lock_count") == "1");
  }
}

}  // namespace
}  // namespace dblock::test
