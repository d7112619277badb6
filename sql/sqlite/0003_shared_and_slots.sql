-- How the lock was last granted: exclusive, shared or slot (of `slots`). Other than exclusive, the row itself has no
-- holder: each has a row in dblock_hold. While it is exclusive, no row there has a holder.
ALTER TABLE dblock_lock ADD COLUMN mode TEXT NOT NULL DEFAULT 'exclusive';
ALTER TABLE dblock_lock ADD COLUMN slots INT NOT NULL DEFAULT 1;
-- New readers are refused until then, on the time line of boot_id and boot_offset_us. Only where nobody holds the row.
ALTER TABLE dblock_lock ADD COLUMN intent_until INT;

-- One row a hold, which outlives its lease too. The columns are dblock_lock's.
CREATE TABLE dblock_hold (
  lock_key TEXT,
  slot INT,  -- from 1
  lock_value TEXT,
  boot_id TEXT,
  boot_offset_us INT,
  create_time INT,
  update_time INT,
  expire_time INT,
  token INT,
  version INT,
  lock_count INT,
  kind TEXT,
  ttl_us INT,
  margin_us INT,
  heartbeat_us INT,
  hold_until INT,
  keep_until INT,
  revoke_time INT,
  idle_since INT,
  holder_host TEXT,
  holder_pid INT,
  holder_user TEXT,
  holder_command TEXT,
  holder_note TEXT,
  last_acquired_at INT,
  last_released_at INT,
  last_outcome TEXT,
  last_exit_code INT,
  success_acquired_at INT,
  success_released_at INT,
  mode TEXT,
  slots INT,
  PRIMARY KEY (lock_key, slot)
) STRICT, WITHOUT ROWID;
