-- Serves: 1
-- The versions of dblock's tables, one row each. A dblock works with the version that it knows, and with a
-- newer version that serves it.
CREATE TABLE IF NOT EXISTS dblock_schema (
  version INT UNSIGNED NOT NULL PRIMARY KEY,
  serves INT UNSIGNED NOT NULL COMMENT 'the oldest dblock, by the version that it knows, that this version serves',
  name VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'the file that made it',
  applied_at DATETIME(6) NOT NULL COMMENT 'UTC',
  keeps_history BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'in the row of version 1: runs are recorded in dblock_history'
) ENGINE=InnoDB COMMENT='versions of the tables of dblock'
