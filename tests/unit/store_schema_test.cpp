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
    const bool is_procedure = migration.sql.find(" PROCEDURE ") != std::string_view::npos;
    CHECK((migration.sql.find(";\n") == std::string_view::npos || is_procedure));
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
                       "GRANT EXECUTE ON PROCEDURE `locks`.`dblock_assert_held` TO 'nightly'@'%'",
                   });
  const auto with_host = grants_for("nightly@10.0.0.%", "locks");
  REQUIRE(with_host);
  CHECK(with_host->front().ends_with("TO 'nightly'@'10.0.0.%'"));
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
