-- Serves: 1
-- Runs in a row that failed, the last of them the last run that has ended. A dblock that knows only version 1 counts nothing.
ALTER TABLE dblock_lock ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
