// What Galera's nodes answer, said by a proxy, and what becomes of it with several hosts in the URL. The real
// nodes are in tests/cluster.
#include <algorithm>

#include "contract/mariadb_store.hpp"
#include "support/catch.hpp"
#include "support/proxy.hpp"

namespace dblock::contract {
namespace {

using namespace lease;
using test::containing;
using test::Proxy;
using test::with_host;

constexpr std::uint16_t k_not_ready = 1047;
constexpr const char* k_not_ready_text = "WSREP has not yet prepared node for application use";
constexpr std::uint16_t k_error_during_commit = 1180;
constexpr const char* k_cut_off_text =
    "Error while appending streaming replication fragment(provider status: Not connected to Primary "
    "Component)";

// The same server under two names.
struct TwoNames {
  [[nodiscard]] std::string url() { return with_host(first.url(t.database().name()), second.host()); }
  [[nodiscard]] static auto seen(const Proxy& host, const std::string& part) {
    return std::ranges::count_if(host.statements(), containing(part));
  }

  MariadbUnderTest t;
  Proxy first{t.database().server()};
  Proxy second{t.database().server()};
  std::unique_ptr<LockBook> store = MariadbUnderTest::open_at(url());
};

bool granted(const Result<Answer>& outcome) {
  if (!outcome) FAIL(outcome.error().message);
  return std::holds_alternative<Granted>(*outcome);
}

}  // namespace

TEST_CASE("mariadb galera: a server built without it is set up without its variable", "[mariadb]") {
  TwoNames hosts;
  hosts.first.refuse_statements(containing("wsrep_sync_wait"), 1193,
                                "Unknown system variable 'wsrep_sync_wait'");
  CHECK(granted(hosts.store->try_acquire(request_for("k", "owner"))));
  CHECK(TwoNames::seen(hosts.first, "SET NAMES") == 2);
  CHECK(TwoNames::seen(hosts.second, "") == 0);
  // A request that others may sleep behind is there all the same.
  const HoldingRun holder(hosts.first.url(hosts.t.database().name()), request_for("other", "holder"));
  const auto waiter = hosts.t.open();
  const WakeEvent never;
  CHECK(waiter->wake_up()->sleep_behind({"holder"}, 0, BootClock::now() + std::chrono::milliseconds(100),
                                        never) == Slept::not_yet);
}

TEST_CASE("mariadb galera: a node that is not ready is passed over, in a transaction too", "[safety]") {
  TwoNames hosts;
  hosts.first.refuse_statements(
      [](const std::string& statement) { return !containing("SET NAMES")(statement); }, k_not_ready,
      k_not_ready_text);
  SECTION("a lock of one") {
    CHECK(granted(hosts.store->try_acquire(request_for("k", "owner"))));
  }
  SECTION("a lock of several") {
    auto request = request_for("k", "owner");
    request.sharing = {Mode::slot, 2};
    CHECK(granted(hosts.store->try_acquire(request)));
  }
  CHECK(TwoNames::seen(hosts.first, "") == 2);  // the set-up and one refusal
  // And is not asked again first.
  hosts.store->disconnect();
  CHECK(granted(hosts.store->try_acquire(request_for("other", "owner"))));
  CHECK(TwoNames::seen(hosts.first, "") == 2);
}

TEST_CASE("mariadb galera: where no node is ready nothing is granted, and each is asked once", "[safety]") {
  TwoNames hosts;
  for (Proxy* host : {&hosts.first, &hosts.second})
    host->refuse_statements(containing("dblock_lock"), k_not_ready, k_not_ready_text);
  const auto refused = hosts.store->try_acquire(request_for("k", "owner"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unreachable);
  CHECK(refused.error().message.find("cut off from the majority") != std::string::npos);
  CHECK(TwoNames::seen(hosts.first, "dblock_lock") == 1);
  CHECK(TwoNames::seen(hosts.second, "dblock_lock") == 1);
}

TEST_CASE("mariadb galera: a commit on its way when the majority went is looked for at another host",
          "[safety]") {
  TwoNames hosts;
  hosts.first.refuse_statements(containing("UPDATE dblock_lock"), k_error_during_commit, k_cut_off_text);
  const auto lost = hosts.store->try_acquire(request_for("k", "owner"));
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == Errc::indeterminate);
  CHECK(TwoNames::seen(hosts.second, "") == 0);  // not sent again
  REQUIRE(row_of(*hosts.store, *Key::parse("k")));
  CHECK(TwoNames::seen(hosts.second, "SELECT") > 0);
}

TEST_CASE("mariadb galera: a host that fell silent is not the first to be asked again") {
  TwoNames hosts;
  REQUIRE(hosts.store->connect());
  hosts.first.cut(Proxy::Cut::before_reply, containing("UPDATE dblock_lock"));
  REQUIRE_FALSE(hosts.store->try_acquire(request_for("k", "owner")));
  REQUIRE(row_of(*hosts.store, *Key::parse("k")));
  CHECK(TwoNames::seen(hosts.second, "SELECT") > 0);
}

}  // namespace dblock::contract
