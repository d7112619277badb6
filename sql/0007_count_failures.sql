-- Serves: 6
-- A dblock that knows only version 6 goes on, and counts nothing.
ALTER TABLE dblock_lock ADD COLUMN failures INT UNSIGNED NOT NULL DEFAULT 0
  COMMENT 'runs in a row that failed, the last of them the last run that has ended'
