#include <algorithm>

#include "store/mariadb/sql.hpp"
#include "store/schema.hpp"
#include "store/sql_grant.hpp"
#include "support/catch.hpp"

namespace dblock::store {

TEST_CASE("MariaDB's migrations count from 1 without holes and hold one statement each") {
  unsigned expected = 1;
  for (const auto& migration : mariadb::migrations()) {
    CAPTURE(migration.name);
    CHECK(migration.version == expected++);
    CHECK(migration.name.ends_with(".sql"));
    CHECK(migration.serves <= migration.version);
    CHECK(migration.sql.find(";\n") == std::string_view::npos);
  }
  CHECK(mariadb::schema_version() == mariadb::migrations().back().version);
}

TEST_CASE("grants are the least that running jobs needs") {
  const auto grants = grants_for("nightly", "locks");
  REQUIRE(grants);
  CHECK(*grants == std::vector<std::string>{
                       "GRANT SELECT ON `locks`.`dblock_schema` TO 'nightly'@'%'",
                       "GRANT SELECT, INSERT, UPDATE, DELETE ON `locks`.`dblock_lock` TO 'nightly'@'%'",
                       "GRANT SELECT, INSERT, UPDATE, DELETE ON `locks`.`dblock_fence` TO 'nightly'@'%'",
                       "GRANT SELECT, INSERT, UPDATE, DELETE ON `locks`.`dblock_pause` TO 'nightly'@'%'",
                       "GRANT SELECT, INSERT, UPDATE, DELETE ON `locks`.`dblock_waiter` TO 'nightly'@'%'",
                       "GRANT EXECUTE ON PROCEDURE `locks`.`dblock_assert_held` TO 'nightly'@'%'",
                   });
  const auto with_host = grants_for("nightly@10.0.0.%", "locks");
  REQUIRE(with_host);
  CHECK(with_host->front().ends_with("TO 'nightly'@'10.0.0.%'"));
}

TEST_CASE("an application is granted the procedures that there are, and nothing else") {
  const auto grants = application_grants_for("shop@web%", "locks");
  REQUIRE(grants);
  for (const auto& procedure : mariadb::procedures()) {
    const std::string grant =
        "GRANT EXECUTE ON PROCEDURE `locks`.`" + std::string(procedure.name) + "` TO 'shop'@'web%'";
    CHECK(std::ranges::find(*grants, grant) != grants->end());
  }
  CHECK(grants->size() == mariadb::procedures().size());
}

TEST_CASE("a procedure decides by dblock's own statements, and knows its version") {
  for (const auto& procedure : mariadb::procedures()) {
    CAPTURE(procedure.name);
    const std::string_view sql = procedure.sql;
    CHECK(sql.find("COMMENT 'dblock, version " + std::to_string(mariadb::procedures_version()) + ": ") !=
          std::string_view::npos);
    CHECK(sql.find("SQL SECURITY DEFINER") != std::string_view::npos);
    CHECK(sql.find("{") == sql.find("{32}"));  // the only braces are a regular expression's
  }
}

TEST_CASE("grants are refused for names that would have to be escaped") {
  for (const auto* const user : {"", "@host", "u@", "o'brien", "a\\b", "a`b", "a\nb"}) {
    CAPTURE(user);
    const auto grants = grants_for(user, "locks");
    REQUIRE_FALSE(grants);
    CHECK(grants.error().code == Errc::usage);
  }
}

}  // namespace dblock::store
