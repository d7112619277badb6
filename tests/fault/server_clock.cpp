// The clock of a server is stepped while a lease is out. The margin is what makes that harmless. Not on
// MySQL: libfaketime makes its server too slow to be of use.
#include <cstdlib>
#include <utility>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/overlap.hpp"
#include "support/privilege.hpp"

namespace dblock::test {
namespace {

// A server whose wall clock is what a file says; the clock for its own waits is left alone.
class SteppedServer {
 public:
  void step(const std::string& to) const {
    write_file(file_ + ".new", to + "\n");
    REQUIRE(::rename((file_ + ".new").c_str(), file_.c_str()) == 0);
  }
  [[nodiscard]] ServerDatabase& database() { return database_; }
  [[nodiscard]] long long micros_ahead() {
    return database_.number("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))") -
           realtime_micros();
  }

 private:
  // The server inherits the test's environment.
  [[nodiscard]] std::vector<std::string> prepared() const {
    step("+0");
    std::string library = faketime_library();
    const std::string plain = "libfaketime.so";
    library.replace(library.rfind(plain), plain.size(), "libfaketimeMT.so");
    ::setenv("LD_PRELOAD", library.c_str(), 1);
    ::setenv("FAKETIME_TIMESTAMP_FILE", file_.c_str(), 1);
    ::setenv("FAKETIME_NO_CACHE", "1", 1);
    ::setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
    return {};
  }
  static ServerAddress address_of(const Server& server) {
    for (const char* name :
         {"LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE", "FAKETIME_NO_CACHE", "FAKETIME_DONT_FAKE_MONOTONIC"})
      ::unsetenv(name);
    return server.address();
  }

  TempDir directory_;
  std::string file_ = directory_.file("clock");
  Server server_{prepared()};
  ServerDatabase database_{address_of(server_)};
};

// How long before the end of an `acquire`d lease, as its holder counts it, the stepped server gave the lock
// away.
long long given_away_early_ns(SteppedServer& server, const std::string& key, const std::string& margin) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const TempDir directory;
    const std::string log = directory.file("log");
    server.step("+0");
    const long long asked = boot_nanos();
    const auto acquired =
        dblock(server.database(), {"acquire", "--key", key, "--ttl", "3s", "--margin", margin});
    REQUIRE(acquired.exit == exited(0));
    server.step("+2");
    const long long stepped = boot_nanos();
    const Words heir = run_words(key, {"--wait", "60s"}, {job_binary(), "interval", log, "1"});
    REQUIRE(dblock(server.database(), heir).exit == exited(0));
    // A machine that takes longer may have let the lease begin as much later: again.
    if (stepped - asked < 500'000'000) return asked + 3'000'000'000 - read_intervals(log).front().begin_ns;
  }
  throw std::runtime_error("no lease was granted within half a second");
}

TEST_CASE("a server's clock stepped ahead by less than the margin gives no lease away before its end",
          "[server][mariadb][timing]") {
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
    "[server][mariadb]") {
  DBLOCK_NEEDS(why_no_faketime());
  SteppedServer server;
  const TempDir directory;
  auto& database = server.database();
  Process run(dblock_spawn(
      database,
      run_words("k", {"--ttl", "9s", "--heartbeat", "200ms", "--kill-grace", "300ms", "--margin", "3s"},
                patient_job(directory))));
  await_file(run, directory.file("up"));
  const std::string token = database.column("k", "token");
  for (const char* to : {"+2", "+0", "-2", "+0"}) {
    INFO(to);
    const long long version = std::stoll(database.column("k", "version"));
    server.step(to);
    REQUIRE(wait_until([&] { return std::stoll(database.column("k", "version")) >= version + 2; }));
    CHECK(dblock(database, run_words("k", {}, {"true"})).exit == exited(75));
    CHECK(run.running());
  }
  CHECK(database.column("k", "token") == token);
  write_file(directory.file("go"), "");
  const Exit exit = run.wait();
  INFO(run.err());
  CHECK(exit == exited(5));
  CHECK_FALSE(database.has_holder("k"));
}

}  // namespace
}  // namespace dblock::test
