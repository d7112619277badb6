-- Serves: 3
-- The rows that dblock_assert_held() locks until the end of a job's transaction, one for each row of
-- dblock_lock. Renewals and releases do not write here: a renewal never waits for such a transaction, and a takeover does.
CREATE TABLE IF NOT EXISTS dblock_fence (
  lock_key VARBINARY(255) NOT NULL,
  slot INT UNSIGNED NOT NULL COMMENT 'that of the row in dblock_lock',
  token BIGINT UNSIGNED NOT NULL COMMENT 'of the last grant; 0: it is not granted',
  asserted BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'counts up where a lock on the row would not do: on Galera and in a replication group, and in XA transactions',
  PRIMARY KEY (lock_key, slot)
) ENGINE=InnoDB COMMENT='locked by transactions of jobs that call dblock_assert_held()'
