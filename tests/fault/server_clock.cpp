// The clock of a server is stepped while a lease is out. The margin is what makes that harmless. Not on
// MySQL: libfaketime makes its server too slow to be of use.
#include <cstdlib>
#include <map>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/overlap.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

// A server whose wall clock is what a file says; the clock for its own waits is left alone.
class SteppedServer {
 public:
  void step(const std::string& to) const { clock_.step(to); }
  [[nodiscard]] ServerDatabase& database() { return database_; }
  [[nodiscard]] long long micros_ahead() {
    return database_.number("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))") -
           realtime_micros();
  }

 private:
  // The server inherits the test's environment.
  [[nodiscard]] std::vector<std::string> prepared() const {
    for (const auto& [name, value] : variables()) ::setenv(name.c_str(), value.c_str(), 1);
    return {};
  }
  [[nodiscard]] ServerAddress address() const {
    for (const auto& [name, value] : variables()) ::unsetenv(name.c_str());
    return server_.address();
  }
  [[nodiscard]] std::map<std::string, std::string> variables() const {
    std::map<std::string, std::string> all;
    for (const auto& word : clock_.env(true, false))
      all[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    return all;
  }

  SteppedClock clock_;
  Server server_{prepared()};
  ServerDatabase database_{address()};
};

// How long before the end of an `acquire`d lease, as its holder counts it, the stepped server gave the lock
// away.
long long given_away_early_ns(SteppedServer& server, const std::string& key, const std::string& margin) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const TempDir directory;
    const std::string log = directory.file("log");
    server.step("+0");
    const long long asked = boot_nanos();
    take(server.database(), key, {"--ttl", "3s", "--margin", margin});
    server.step("+2");
    const long long stepped = boot_nanos();
    const Words heir = run_words(key, {"--wait", "60s"}, interval_job(log, 1));
    REQUIRE(dblock(server.database(), heir).exit == exited(0));
    // A machine that takes longer may have let the lease begin as much later: again.
    if (stepped - asked < 500'000'000) return asked + 3'000'000'000 - read_intervals(log).front().begin_ns;
  }
  throw std::runtime_error("no lease was granted within half a second");
}

TEST_CASE("a server's clock stepped ahead by less than the margin gives no lease away before its end",
          "[server][mariadb][timing][safety]") {
  DBLOCK_NEEDS(why_no_faketime());
  SteppedServer server;
  server.step("+2");
  REQUIRE(server.micros_ahead() > 1'900'000);
  CHECK(given_away_early_ns(server, "with", "2500ms") <= 0);
  // What the margin is for: without it the same step gives the lock away two seconds early, of which a busy
  // machine may take some.
  long long early = 0;
  for (int attempt = 0; attempt < 5 && early <= 0; ++attempt)
    early = given_away_early_ns(server, "without", "0");
  CHECK(early > 0);
}

TEST_CASE(
    "a run lives through steps of its server's clock that are smaller than the margin, and nobody "
    "overlaps with it",
    "[server][mariadb][safety][other-servers]") {
  DBLOCK_NEEDS(why_no_faketime());
  SteppedServer server;
  auto& database = server.database();
  LiveRun run(database, {"--ttl", "9s", "--heartbeat", "200ms", "--kill-grace", "300ms", "--margin", "3s"});
  const std::string token = database.column("k", "token");
  for (const char* to : {"+2", "+0", "-2", "+0"}) {
    INFO(to);
    const long long version = std::stoll(database.column("k", "version"));
    server.step(to);
    REQUIRE(wait_until([&] { return std::stoll(database.column("k", "version")) >= version + 2; }));
    CHECK(run_true(database) == exited(75));
    CHECK(run.running());
  }
  CHECK(database.column("k", "token") == token);
  const Exit exit = run.end(5);
  INFO(run.err());
  CHECK(exit == exited(5));
  CHECK_FALSE(database.has_holder("k"));
}

}  // namespace
}  // namespace dblock::test
