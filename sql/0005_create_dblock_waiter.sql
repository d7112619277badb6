-- Serves: 5
-- The lines: a row, called a place, for each request that waits for a lock; a request for several locks has one in the line of
-- each. A line is ordered by arrival and owner id. A place only refuses the requests behind it, and does not count once
-- seen_until has passed. `dblock` also writes the end of the last place into line_until of the lock's row in dblock_lock, and a
-- grant that finds nothing there reads no line.
CREATE TABLE IF NOT EXISTS dblock_waiter (
  lock_key VARBINARY(255) NOT NULL,
  owner_id VARBINARY(255) NOT NULL COMMENT 'that the lease will have',
  arrival DATETIME(6) NOT NULL COMMENT 'UTC: the request was first refused',
  seen_until DATETIME(6) NOT NULL COMMENT 'UTC: the place counts until then; the waiter moves this on',
  version INT UNSIGNED NOT NULL COMMENT 'counts every change of this row',
  mode ENUM('exclusive', 'shared', 'slot') CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  slots INT UNSIGNED NOT NULL COMMENT 'mode slot: the most holders at a time',
  waits_elsewhere BOOLEAN NOT NULL COMMENT 'the request waits for other locks, too',
  line ENUM('fifo', 'one', 'newest') CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'newest: leaves when another request comes',
  waiter_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  waiter_pid INT UNSIGNED NOT NULL COMMENT '0: not known, as of an application',
  waiter_user VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  PRIMARY KEY (lock_key, owner_id)
) ENGINE=InnoDB COMMENT='who waits for the locks of dblock'
