-- Serves: 4
-- The pauses: a grant is refused while one that covers its key has not ended. `dblock pause` also writes it into paused_until of
-- each row of dblock_lock that it covers, and most grants read no more than that.
CREATE TABLE IF NOT EXISTS dblock_pause (
  pause_key VARBINARY(255) NOT NULL COMMENT 'the paused key; if is_prefix: what the paused keys begin with, and empty for all keys',
  is_prefix BOOLEAN NOT NULL,
  create_time DATETIME(6) NOT NULL COMMENT 'UTC',
  end_time DATETIME(6) NOT NULL COMMENT 'UTC: the pause ends by itself',
  paused_by VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'user@host',
  note VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  PRIMARY KEY (pause_key, is_prefix),
  CONSTRAINT dblock_pause_key CHECK (is_prefix = 1 OR (is_prefix = 0 AND LENGTH(pause_key) > 0)),
  CONSTRAINT dblock_pause_end CHECK (end_time > create_time)
) ENGINE=InnoDB COMMENT='keys that are not granted for a while: dblock pause'
