-- What dblock_assert_held() locks for the length of a job's transaction. Only grants write here, so that a renewal never
-- waits for such a transaction, and whoever takes the lock over does.
CREATE TABLE IF NOT EXISTS dblock_fence (
  lock_key VARBINARY(255) NOT NULL,
  slot INT UNSIGNED NOT NULL COMMENT '0: the exclusive holder; else that of the row in dblock_hold',
  token BIGINT UNSIGNED NOT NULL COMMENT 'of the last grant; 0: the place is not granted',
  PRIMARY KEY (lock_key, slot)
) ENGINE=InnoDB
