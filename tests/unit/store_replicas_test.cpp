#include "store/mariadb/replicas.hpp"
#include "support/catch.hpp"

namespace dblock::store::mariadb {
namespace {

const std::vector<Row> k_source_status{{"Rpl_semi_sync_source_clients", "2"},
                                       {"Rpl_semi_sync_source_no_tx", "7"},
                                       {"Rpl_semi_sync_source_status", "ON"},
                                       {"Rpl_semi_sync_replica_status", "OFF"}};

}  // namespace

TEST_CASE("the semi-synchronous state is read under its names of MariaDB and of MySQL") {
  const auto mysql = read_semi_sync(k_source_status, {{"rpl_semi_sync_source_wait_for_replica_count", "2"}});
  REQUIRE(mysql);
  CHECK(mysql->on);
  CHECK(mysql->replicas == 2);
  CHECK(mysql->unacknowledged == 7);
  CHECK(mysql->waits_for == 2);
  const auto mariadb =
      read_semi_sync({{"Rpl_semi_sync_master_clients", "1"}, {"Rpl_semi_sync_master_status", "OFF"}}, {});
  REQUIRE(mariadb);
  CHECK_FALSE(mariadb->on);
  CHECK(mariadb->replicas == 1);
  CHECK(mariadb->waits_for == 1);
  CHECK_FALSE(read_semi_sync({}, {}));
  CHECK_FALSE(read_semi_sync({{"Rpl_semi_sync_replica_status", "ON"}}, {}));
}

TEST_CASE("too few replicas, a fallback or none of it: nothing may be granted", "[safety]") {
  const auto state = read_semi_sync(k_source_status, {});
  CHECK_FALSE(short_of(state, 1));
  CHECK_FALSE(short_of(state, 2));
  CHECK(short_of(state, 3));
  auto fallen_back = *state;
  fallen_back.on = false;
  CHECK(short_of(fallen_back, 1));
  CHECK(short_of(std::nullopt, 1));
}

TEST_CASE("a MySQL server that waits for fewer acknowledgements than min-replicas grants nothing",
          "[safety]") {
  const auto state = read_semi_sync(k_source_status, {{"rpl_semi_sync_source_wait_for_replica_count", "1"}});
  REQUIRE(state);
  CHECK_FALSE(waits_for_fewer(*state, 1));
  CHECK(waits_for_fewer(*state, 2) ==
        "the server waits for 1 acknowledgement (rpl_semi_sync_source_wait_for_replica_count)");
}

}  // namespace dblock::store::mariadb
