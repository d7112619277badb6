// How `migrate` installs the procedures that applications call, and who may do that.
#include "contract/mariadb_store.hpp"
#include "store/mariadb/sql.hpp"
#include "store/sql_grant.hpp"
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/server_kind.hpp"

namespace dblock::contract {
namespace {

using test::says;
using namespace lease;

// As an older dblock has left it, which installed version 0 of it.
void make_old(test::ServerDatabase& database, const std::string& procedure) {
  database.sql("ALTER PROCEDURE " + procedure + " COMMENT 'dblock, version 0: old'");
}

store::ProceduresState procedures(store::SchemaAdmin& admin) {
  auto state = admin.procedures();
  if (!state) FAIL(state.error().message);
  REQUIRE(state->has_value());
  return **state;
}

store::Applied apply(store::SchemaAdmin& admin) {
  auto done = admin.apply();
  if (!done) FAIL(done.error().message);
  return *done;
}

}  // namespace

TEST_CASE(
    "mariadb: migrating installs the procedures once, and again those that are gone or of an older version") {
  MariadbUnderTest t(test::shared_server(), false);
  const auto all = store::mariadb::procedures().size();
  CHECK(procedures(*t.admin()).missing.size() == all);
  CHECK(apply(*t.admin()).procedures.size() == all);
  CHECK(procedures(*t.admin()).there.size() == all);
  CHECK(apply(*t.admin()).procedures.empty());

  t.database().sql("DROP PROCEDURE dblock_release");
  make_old(t.database(), "dblock_renew");
  const auto state = procedures(*t.admin());
  REQUIRE(state.missing.size() == 1);
  CHECK(state.missing.front().name == "dblock_release");
  REQUIRE(state.outdated.size() == 1);
  CHECK(state.outdated.front().name == "dblock_renew");
  const auto again = apply(*t.admin());
  CHECK(again.procedures.size() == 2);
  CHECK(again.migrations.empty());
  CHECK(again.grants_lost == test::mysql_run());
  CHECK(procedures(*t.admin()).there.size() == all);
}

TEST_CASE("mariadb: a procedure of a newer version stays as it is") {
  MariadbUnderTest t;
  t.database().sql("ALTER PROCEDURE dblock_renew COMMENT 'dblock, version 1000: newer'");
  CHECK(apply(*t.admin()).procedures.empty());
  CHECK(says(t.database().value("SELECT ROUTINE_COMMENT FROM information_schema.ROUTINES WHERE "
                                "ROUTINE_SCHEMA=DATABASE() AND ROUTINE_NAME='dblock_renew'"),
             "version 1000"));
}

TEST_CASE("mariadb: an old procedure that may not be replaced is not taken for the new one") {
  MariadbUnderTest t;
  auto& database = t.database();
  make_old(database, "dblock_assert_held");
  const std::string user =
      database.account("", "SELECT,INSERT,UPDATE,DELETE,CREATE,ALTER,INDEX,DROP,EXECUTE");
  const auto applied = store::open_schema(settings_of(database.url(user)), {})->apply();
  REQUIRE_FALSE(applied);
  CHECK(applied.error().code == Errc::denied);
  CHECK(says(applied.error().message, "ALTER ROUTINE"));
  CHECK(procedures(*t.admin()).outdated.size() == 1);
}

TEST_CASE("mariadb: the right to call a procedure outlives its replacement", "[mariadb]") {
  MariadbUnderTest t;
  auto& database = t.database();
  const std::string user = database.account("", "USAGE");
  const auto grants = store::application_grants_for(user, database.name());
  REQUIRE(grants);
  for (const auto& grant : *grants) database.sql(grant);
  make_old(database, "dblock_renew");
  REQUIRE(apply(*t.admin()).procedures.size() == 1);
  test::Connection session(database.server(), user, database.name());
  CHECK_NOTHROW(session.sql("CALL dblock_renew('k','nobody',NULL)"));
}

TEST_CASE("mariadb: who may not create procedures migrates all the same, and another adds them later") {
  MariadbUnderTest t(test::shared_server(), false);
  auto& database = t.database();
  const std::string user = database.account("", "SELECT,INSERT,UPDATE,DELETE,CREATE,ALTER,INDEX,DROP");
  const auto admin = store::open_schema(settings_of(database.url(user)), {});
  const auto applied = apply(*admin);
  CHECK(applied.migrations.size() == store::mariadb::schema_version());
  CHECK(applied.procedures.empty());
  CHECK(says(applied.refusal, "dblock_acquire"));
  const auto all = store::mariadb::procedures().size();
  CHECK(procedures(*admin).missing.size() == all);
  CHECK(MariadbUnderTest::open_at(database.url(user))->try_acquire(request_for("k", "owner")));

  const auto installed = apply(*t.admin());
  CHECK(installed.procedures.size() == all);
  CHECK(installed.refusal.empty());
  REQUIRE(installed.migrations.size() == 1);  // the view
  CHECK(database.number("SELECT COUNT(*) FROM dblock_now") == 1);
  CHECK(procedures(*t.admin()).there.size() == all);
  const auto nothing = apply(*t.admin());
  CHECK(nothing.procedures.empty());
  CHECK(nothing.migrations.empty());
  CHECK(database.value("SELECT GROUP_CONCAT(DISTINCT sql_mode) FROM information_schema.routines WHERE "
                       "routine_schema=DATABASE()") == "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION");
}

TEST_CASE("mariadb: an application's account may call the procedures and nothing else") {
  MariadbUnderTest t;
  auto& database = t.database();
  const std::string user = database.account("", "USAGE");
  const auto grants = store::application_grants_for(user, database.name());
  REQUIRE(grants);
  CHECK(grants->size() == store::mariadb::procedures().size());
  for (const auto& grant : *grants) database.sql(grant);
  test::Connection session(database.server(), user, database.name());
  for (const auto& procedure : store::mariadb::procedures()) {
    CAPTURE(procedure.name);
    if (procedure.name == "dblock_assert_held") continue;
    const std::string arguments = procedure.name == "dblock_acquire" ? "('k','owner',60000,NULL,60000,NULL)"
                                  : procedure.name == "dblock_renew" ? "('k','owner',NULL)"
                                                                     : "('k','owner')";
    CHECK(session.sql("CALL " + std::string(procedure.name) + arguments).size() == 1);
  }
  for (const std::string table : {"dblock_lock", "dblock_fence", "dblock_waiter", "dblock_schema"}) {
    CAPTURE(table);
    CHECK_THROWS(session.sql("SELECT 1 FROM " + table));
    CHECK_THROWS(session.sql("DELETE FROM " + table));
  }
}

}  // namespace dblock::contract
