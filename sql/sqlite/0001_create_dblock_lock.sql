-- One row a lock; it outlives its lease. All times are microseconds since the epoch, UTC, all *_us microseconds.
--
-- Times of the current lease are on the lease's own time line: the boot clock (which counts suspend and which no
-- step of the wall clock moves) plus boot_offset_us. A lease whose boot_id is not this boot's has ended with it.
CREATE TABLE dblock_lock (
  lock_key TEXT NOT NULL PRIMARY KEY,
  lock_value TEXT,                  -- owner id; NULL: free
  boot_id TEXT NOT NULL,            -- of the boot in which the lease was granted
  boot_offset_us INTEGER NOT NULL,  -- wall clock minus boot clock at the grant
  create_time INTEGER NOT NULL,     -- this lease was granted
  update_time INTEGER NOT NULL,     -- this lease was last renewed, or the lock freed
  expire_time INTEGER,              -- end of the lease; NULL: free
  token INTEGER NOT NULL,           -- fencing token of the last grant; never decreases
  version INTEGER NOT NULL,         -- counts every change of this row
  lock_count INTEGER NOT NULL,
  kind TEXT NOT NULL,               -- run or acquire
  ttl_us INTEGER NOT NULL,
  margin_us INTEGER NOT NULL,       -- nobody may take over before expire_time + margin
  heartbeat_us INTEGER,             -- the holder renews this often; NULL: it does not promise to
  hold_until INTEGER,               -- not granted before, by the wall clock, whoever holds it
  keep_until INTEGER,               -- this row is not forgotten before
  revoke_time INTEGER,              -- renewals are refused from then on
  idle_since INTEGER,               -- freed then; NULL: held
  holder_host TEXT NOT NULL,
  holder_pid INTEGER NOT NULL,
  holder_user TEXT NOT NULL,
  holder_command TEXT NOT NULL,
  holder_note TEXT NOT NULL,
  last_acquired_at INTEGER,
  last_released_at INTEGER,
  last_outcome TEXT,
  last_exit_code INTEGER,
  success_acquired_at INTEGER,
  success_released_at INTEGER
) STRICT;

CREATE INDEX dblock_lock_expiry ON dblock_lock (expire_time) WHERE expire_time IS NOT NULL;
CREATE INDEX dblock_lock_idle ON dblock_lock (idle_since) WHERE idle_since IS NOT NULL;

-- The record of which migrations this store has seen; PRAGMA user_version is the version itself.
CREATE TABLE dblock_migration (
  version INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT;

-- One row about the store itself.
CREATE TABLE dblock_state (
  only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
  token_floor INTEGER NOT NULL,  -- no new row's token may be at or below what a forgotten row has had
  changes INTEGER NOT NULL       -- counts every commit, so that commits that got lost can be noticed
) STRICT, WITHOUT ROWID;

INSERT INTO dblock_state (only, token_floor, changes) VALUES (1, 0, 0);
