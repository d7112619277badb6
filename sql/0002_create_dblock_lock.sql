-- Serves: 2
-- One row for each lock (slot 0: its own row, with its exclusive lease), and one for each reader or holder of a slot
-- (slot 1 and up). Rows outlive their leases. A row is free if lock_value is NULL. All times are UTC by
-- the server's clock, all *_us are microseconds. Types are short, because in ROW format each heartbeat writes
-- the whole row into the binary log.
CREATE TABLE IF NOT EXISTS dblock_lock (
  lock_key VARBINARY(255) NOT NULL,
  slot INT UNSIGNED NOT NULL DEFAULT 0 COMMENT '0: the lock itself, and its exclusive holder; from 1 on: readers, holders of slots',
  lock_value VARBINARY(255) NULL COMMENT 'owner id; NULL: free',
  create_time DATETIME(6) NOT NULL COMMENT 'this lease was granted',
  update_time DATETIME(6) NOT NULL COMMENT 'this lease was last renewed, or the row freed',
  expire_time DATETIME(6) NULL COMMENT 'end of the lease; NULL: free',
  token BIGINT UNSIGNED NOT NULL COMMENT 'fencing token of the last grant; in slot 0 that of the lock; never decreases',
  version BIGINT UNSIGNED NOT NULL COMMENT 'counts every change of this row',
  lock_count INT UNSIGNED NOT NULL COMMENT 'the holder, and the runs that nest in its lease; 0: free',
  kind ENUM('run', 'acquire', 'sql') CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'what took the lease: a command, or an application by dblock_acquire()',
  mode ENUM('exclusive', 'shared', 'slot') CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'exclusive'
    COMMENT 'of the last grant; in slot 0 that of the lock: unless exclusive, its holders have rows of their own',
  slots INT UNSIGNED NOT NULL DEFAULT 1 COMMENT 'how many holders the last grant allowed',
  ttl_us BIGINT NOT NULL COMMENT 'length of the lease',
  margin_us BIGINT NOT NULL COMMENT 'nobody may take over before expire_time + margin',
  heartbeat_us BIGINT NULL COMMENT 'the holder renews this often; NULL: it does not promise to',
  hold_until DATETIME(6) NULL COMMENT 'not granted before, whoever holds it',
  hold_us BIGINT NULL COMMENT 'length of the cooldown that ends at hold_until, as it was asked for; NULL: not known',
  keep_until DATETIME(6) NULL COMMENT 'this row is not forgotten before',
  revoke_time DATETIME(6) NULL COMMENT 'renewals are refused from then on',
  revoked_by VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'user@host',
  replaceable BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'a newer run may revoke the lease: run --replace',
  arrived_at DATETIME(6) NULL COMMENT 'when the request of this lease, or of the last one, began to wait; its grant, where it did not',
  line_until DATETIME(6) NULL COMMENT 'in slot 0: somebody may be waiting until then; the line itself is in dblock_waiter',
  paused_until DATETIME(6) NULL COMMENT 'in slot 0: no new grants before; the pause itself is in dblock_pause',
  holder_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'of the holder, or of the last one',
  holder_pid INT UNSIGNED NOT NULL COMMENT '0: not known, as of an application',
  holder_user VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  holder_command VARCHAR(2000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  holder_note VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  last_acquired_at DATETIME(6) NULL COMMENT 'the last run under this row that has ended',
  last_released_at DATETIME(6) NULL COMMENT 'NULL: nobody released it',
  last_outcome ENUM('succeeded', 'failed', 'signalled', 'timed_out', 'lost', 'released', 'not_run', 'abandoned')
    CHARACTER SET ascii COLLATE ascii_bin NULL,
  last_exit_code INT NULL,
  success_acquired_at DATETIME(6) NULL COMMENT 'the last of them that succeeded',
  success_released_at DATETIME(6) NULL,
  PRIMARY KEY (lock_key, slot),
  KEY dblock_lock_time (expire_time, update_time) COMMENT 'finds what is held, what has expired, and what is idle for long',
  CONSTRAINT dblock_lock_free CHECK ((lock_value IS NULL) = (expire_time IS NULL) AND (lock_value IS NULL) = (lock_count = 0)),
  CONSTRAINT dblock_lock_slot CHECK (slot = 0 OR mode <> 'exclusive')
) ENGINE=InnoDB COMMENT='leases of dblock; for people there is the view dblock_now'
