// Several hosts in one store: proxies in front of one server stand for servers that refuse or fall silent.
#include <algorithm>
#include <future>
#include <thread>

#include "contract/mariadb_store.hpp"
#include "support/catch.hpp"
#include "support/proxy.hpp"
#include "support/replication.hpp"

namespace dblock::contract {
namespace {

using namespace std::chrono_literals;
using namespace lease;

struct TwoHosts {
  [[nodiscard]] std::unique_ptr<LockBook> open(std::chrono::seconds network_timeout = 10s,
                                               const std::string& parameters = "") {
    const auto place = [](const std::string& url) { return url.substr(url.find('@') + 1); };
    const std::string second = place(behind.url(t.database().name()));
    const std::string first = place(front.url(t.database().name()));
    return MariadbUnderTest::open_at(
        "mysql://app@" + first.substr(0, first.find('/')) + "," + second + parameters, network_timeout);
  }
  MariadbUnderTest t;
  test::Proxy front{t.database().server()};
  test::Proxy behind{t.database().server()};
};

Lease granted_by(Result<Answer> outcome) {
  if (!outcome) FAIL(outcome.error().message);
  REQUIRE(std::holds_alternative<Granted>(*outcome));
  return std::get<Granted>(*outcome).lease;
}

LeaseRef of(const Lease& lease) {
  return {lease.key, lease.owner, lease.token};
}

// Statements of their own: a look at a lock's row asks for it along the way.
std::size_t reads_of_read_only(const test::Proxy& proxy) {
  return static_cast<std::size_t>(std::ranges::count_if(proxy.statements(), [](const std::string& statement) {
    return statement.starts_with("SELECT") && statement.find("read_only") != std::string::npos &&
           statement.find("FROM") == std::string::npos;
  }));
}

}  // namespace

TEST_CASE("mariadb: a statement that is refused for being on the wrong host is done on another, in one call",
          "[safety]") {
  for (const auto& [error, words] : std::vector<std::pair<std::uint16_t, std::string>>{
           {1290, "running with the --read-only option"},
           {1836, "Running in read-only mode"},
           {1792, "Cannot execute statement in a READ ONLY transaction"},
           {1047, "WSREP has not yet prepared node for application use"}}) {
    CAPTURE(error);
    TwoHosts hosts;
    const auto store = hosts.open();
    REQUIRE(store->connect());
    hosts.front.refuse_statements(test::containing("UPDATE"), error, words);
    const Lease lease = granted_by(store->try_acquire(request_for("k", "owner")));
    hosts.front.refuse_statements(test::containing("nothing"), error, words);
    // It stays where it found somebody.
    const auto before = hosts.front.statements().size();
    REQUIRE(store->renew(of(lease), Actor::holder, std::nullopt));
    CHECK(hosts.front.statements().size() == before);
  }
}

TEST_CASE("mariadb: a connection that was lost is made again to the host that worked") {
  TwoHosts hosts;
  hosts.front.refuse(true);
  const auto store = hosts.open();
  const Lease lease = granted_by(store->try_acquire(request_for("k", "owner")));
  hosts.front.refuse(false);
  hosts.behind.cut(test::Proxy::Cut::before_statement, test::containing("UPDATE"));
  CHECK_FALSE(store->renew(of(lease), Actor::holder, std::nullopt));
  CHECK(store->renew(of(lease), Actor::holder, std::nullopt));
  CHECK(hosts.front.statements().empty());
}

TEST_CASE("mariadb: a host that has fallen silent is not asked first again") {
  TwoHosts hosts;
  const auto store = hosts.open(1s);
  const Lease lease = granted_by(store->try_acquire(request_for("k", "owner")));
  hosts.front.stall();
  // Lost, or moved on within the call where the session was no longer new.
  const auto first = store->renew(of(lease), Actor::holder, std::nullopt);
  if (!first) CHECK(first.error().code == Errc::indeterminate);
  const int asked = hosts.front.connections();
  CHECK(store->renew(of(lease), Actor::holder, std::nullopt));
  CHECK(hosts.front.connections() == asked);
}

TEST_CASE("mariadb: once there is a lease to lose, no host is waited for longer than for a reply",
          "[safety][once]") {
  TwoHosts hosts;
  const auto store = hosts.open(2s, "?connect-timeout=10m");
  const Lease lease = granted_by(store->try_acquire(request_for("k", "owner")));
  hosts.behind.refuse(true);
  hosts.front.stall();
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) CHECK_FALSE(store->renew(of(lease), Actor::holder, std::nullopt));
  CHECK(std::chrono::steady_clock::now() - begun < 60s * test::slowness());  // of ten minutes
}

TEST_CASE(
    "mariadb: no host is asked whether it has turned read-only, since each change finds out by itself") {
  TwoHosts hosts;
  const auto store = hosts.open();
  const Lease lease = granted_by(store->try_acquire(request_for("k", "owner")));
  REQUIRE(store->renew(of(lease), Actor::holder, std::nullopt));
  REQUIRE(store->release(of(lease), Actor::holder, {}));
  CHECK(reads_of_read_only(hosts.front) == 0);
}

// After a switchover the old primary's rows are nobody's: what is written there is not replicated.
TEST_CASE("mariadb: an account that may write on read-only servers changes nothing there either",
          "[safety][other-servers]") {
  const bool logs_statements = GENERATE(false, true);
  CAPTURE(logs_statements);
  const test::Server own({"--log-bin", "--server-id=1",
                          std::string("--binlog-format=") + (logs_statements ? "STATEMENT" : "ROW")});
  MariadbUnderTest t(own.address());
  t.database().sql("GRANT ALL ON *.* TO app@'%'");
  test::Proxy proxy(own.address());
  const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()));
  const Lease lease = granted_by(store->try_acquire(request_for("k", "owner")));
  const Lease reader = granted_by(store->try_acquire(request_for("readers", "owner", {Mode::shared, 1})));
  const Lease ended = granted_by(store->try_acquire(request_for("free", "owner")));
  REQUIRE(store->release(of(ended), Actor::holder, {}));
  auto inner = request_for("k", "owner/inner");
  inner.outer = lease.owner;
  auto waits = request_for("k", "waiter");
  const auto arrival = store->stand_in_line(waits, 75s, true);
  REQUIRE(arrival);
  waits.arrival = *arrival;
  const auto rows = [&] {
    return t.database().row("k") + t.database().row("readers") + t.database().row("free") +
           t.database().value("SELECT GROUP_CONCAT(owner_id,seen_until) FROM dblock_waiter");
  };
  const auto before = rows();
  const auto refuses = [&](const auto& change) {
    REQUIRE(row_of(*store, lease.key));  // the session is open, and was set up while the server took writes
    t.database().sql("SET GLOBAL read_only=1");
    const int connections = proxy.connections();
    const auto outcome = change();
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == Errc::unreachable);
    CHECK(outcome.error().message.find("read_only is set") != std::string::npos);
    CHECK(rows() == before);
    // The next one asks anew where the name of the host leads.
    CHECK_FALSE(change());
    CHECK(proxy.connections() > connections);
    t.database().sql("SET GLOBAL read_only=0");
  };
  for (const auto& ref : {of(lease), lease::ref_to(reader)}) {
    refuses([&] { return store->renew(ref, Actor::holder, std::nullopt); });
    refuses([&] { return store->release(ref, Actor::holder, {}); });
  }
  refuses([&] { return store->nest(inner); });
  refuses([&] { return store->stand_in_line(waits, 75s, false); });
  refuses([&] { return store->stand_in_line(request_for("k", "new waiter"), 75s, false); });
  refuses([&] { return store->try_acquire(request_for("free", "owner")); });
  CHECK(store->renew(of(lease), Actor::holder, std::nullopt));
}

// A look changes nothing, so no refusal of the server sends it to another host.
TEST_CASE("mariadb: a look that finds its server read-only leaves it for the host that takes the writes",
          "[mariadb][safety]") {
  const test::ReplicatingPair pair;
  const auto store = MariadbUnderTest::open_at(pair.url());
  granted_by(store->try_acquire(request_for("k", "owner")));
  test::switch_over(pair.primary, pair.replica);
  const auto look = [&] { return store->look(request_for("k", "other")); };
  const auto why = [](const auto& answer) {
    REQUIRE_FALSE(answer);
    return answer.error();
  };
  Selection now;
  now.from_primary = true;
  const Error error = GENERATE(true, false) ? why(look()) : why(store->list(now));
  CHECK(error.code == Errc::unreachable);
  CHECK_THAT(error.message, Catch::Contains("takes no writes"));
  const auto seen = look();
  REQUIRE(seen);
  REQUIRE(std::holds_alternative<Held>(*seen));
  CHECK(std::get<Held>(*seen).status.owner == "owner");
}

// It is there again, and the status says so, before it has been asked for: only the count of commits that
// returned without an acknowledgement still tells.
TEST_CASE("mariadb: a grant that was not acknowledged is given back though the replica is back by then",
          "[mariadb][safety]") {
  const test::ReplicatingServer primary(1);
  const test::ReplicatingServer replica(2);
  test::replicate(replica, primary);
  MariadbUnderTest t(primary.address());
  test::wait_for_acknowledgements(primary, 500ms);
  test::acknowledge(replica, primary);
  test::Proxy proxy(primary.address());
  const auto store = MariadbUnderTest::open_at(proxy.url(t.database().name()) + "?min-replicas=1");
  const Lease lease = granted_by(store->try_acquire(request_for("k", "before")));
  REQUIRE(store->release(of(lease), Actor::holder, {}));
  replica.freeze();
  proxy.delay(1s);
  auto granted =
      std::async(std::launch::async, [&] { return store->try_acquire(request_for("k", "owner")); });
  const auto status_is = [&](const char* value) {
    return test::wait_until([&] { return test::semi_sync(primary, "status") == value; });
  };
  CHECK(status_is("OFF"));
  replica.thaw();
  CHECK(status_is("ON"));
  const auto outcome = granted.get();
  REQUIRE_FALSE(outcome);
  INFO(outcome.error().message);
  CHECK(outcome.error().code == Errc::unreachable);
  proxy.delay(0ms);
  const auto seen = row_of(*t.open(), *Key::parse("k"));
  REQUIRE(seen);
  CHECK((!seen->has_value() || (*seen)->owner.empty()));
}

}  // namespace dblock::contract
