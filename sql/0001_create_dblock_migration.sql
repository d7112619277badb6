-- The record of which migrations this database has seen.
CREATE TABLE IF NOT EXISTS dblock_migration (
  version INT UNSIGNED NOT NULL PRIMARY KEY,
  name VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  applied_at DATETIME(6) NOT NULL
) ENGINE=InnoDB
