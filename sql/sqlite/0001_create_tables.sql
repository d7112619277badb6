-- Serves: 1
-- One row for each lock (slot 0: its own row, with its exclusive lease), and one for each reader or holder of a slot
-- (slot 1 and up). Rows outlive their leases. A row is free if lock_value is NULL. All times are
-- microseconds since the epoch, UTC; all *_us are microseconds. Not WITHOUT ROWID: usual rows would not fit
-- into a page of the index.
--
-- Times of the current lease are on the lease's own time line: the boot clock plus boot_offset_us. The boot
-- clock goes on during suspend, and no step of the wall clock moves it. If boot_id is not this boot's, the
-- lease ended with its boot.
CREATE TABLE dblock_lock (
  lock_key TEXT NOT NULL,
  slot INTEGER NOT NULL,
  lock_value TEXT,                  -- owner id; NULL: free
  boot_id TEXT NOT NULL,            -- of the boot in which the lease was granted
  boot_offset_us INTEGER NOT NULL,  -- wall clock minus boot clock at the grant
  create_time INTEGER NOT NULL,     -- this lease was granted
  update_time INTEGER NOT NULL,     -- this lease was last renewed, or the row freed
  expire_time INTEGER,              -- end of the lease; NULL: free
  token INTEGER NOT NULL,           -- fencing token of the last grant; in slot 0 that of the lock; never decreases
  version INTEGER NOT NULL,         -- counts every change of this row
  lock_count INTEGER NOT NULL,      -- the holder, and the runs that nest in its lease; 0: free
  kind TEXT NOT NULL,               -- run or acquire
  mode TEXT NOT NULL,               -- of the last grant; in slot 0 that of the lock: unless exclusive, its holders
                                    -- have rows of their own
  slots INTEGER NOT NULL,           -- how many holders the last grant allowed
  ttl_us INTEGER NOT NULL,
  margin_us INTEGER NOT NULL,       -- nobody may take over before expire_time + margin
  heartbeat_us INTEGER,             -- the holder renews this often; NULL: it does not promise to
  hold_until INTEGER,               -- not granted before, by the wall clock, whoever holds it
  hold_us INTEGER,                  -- length of the cooldown that ends at hold_until, as it was asked for;
                                    -- NULL: not known
  keep_until INTEGER,               -- this row is not forgotten before
  revoke_time INTEGER,              -- renewals are refused from then on
  revoked_by TEXT,                  -- user@host
  replaceable INTEGER NOT NULL DEFAULT 0, -- a newer run may revoke the lease: run --replace
  arrived_at INTEGER,               -- when the request of this lease, or of the last one, began to wait, by the wall clock
  holder_host TEXT NOT NULL,
  holder_pid INTEGER NOT NULL,
  holder_user TEXT NOT NULL,
  holder_command TEXT NOT NULL,
  holder_note TEXT NOT NULL,
  last_acquired_at INTEGER,         -- the last run under this row that has ended
  last_released_at INTEGER,
  last_outcome TEXT,
  last_exit_code INTEGER,
  success_acquired_at INTEGER,      -- the last of them that succeeded
  success_released_at INTEGER,
  PRIMARY KEY (lock_key, slot),
  CHECK ((lock_value IS NULL) = (expire_time IS NULL) AND (lock_value IS NULL) = (lock_count = 0))
) STRICT;

-- The versions of this store's tables. A dblock works with the version that it knows, and with a newer version
-- that serves it. PRAGMA user_version holds the newest version, too.
CREATE TABLE dblock_schema (
  version INTEGER NOT NULL PRIMARY KEY,
  serves INTEGER NOT NULL,  -- the oldest dblock, by the version that it knows, that this version serves
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

-- The pauses: a grant is refused while one that covers its key has not ended, by the wall clock.
CREATE TABLE dblock_pause (
  pause_key TEXT NOT NULL,       -- the paused key; if is_prefix: what the paused keys begin with, and empty for all keys
  is_prefix INTEGER NOT NULL CHECK (is_prefix IN (0, 1)),
  create_time INTEGER NOT NULL,
  end_time INTEGER NOT NULL CHECK (end_time > create_time),
  paused_by TEXT NOT NULL,       -- user@host
  note TEXT NOT NULL,
  PRIMARY KEY (pause_key, is_prefix),
  CHECK (is_prefix = 1 OR pause_key <> '')
) STRICT, WITHOUT ROWID;

-- The lines: a row, called a place, for each request that waits for a lock; a request for several locks has one in the line
-- of each. A line is ordered by arrival and owner id, and a place does not count once seen_until has passed. By the wall clock.
CREATE TABLE dblock_waiter (
  lock_key TEXT NOT NULL,
  owner_id TEXT NOT NULL,        -- that the lease will have
  arrival INTEGER NOT NULL,      -- the request was first refused
  seen_until INTEGER NOT NULL,   -- the place counts until then; the waiter moves this on
  mode TEXT NOT NULL,
  slots INTEGER NOT NULL,        -- mode slot: the most holders at a time
  waits_elsewhere INTEGER NOT NULL, -- the request waits for other locks, too
  line TEXT NOT NULL,            -- fifo, one or newest
  waiter_host TEXT NOT NULL,
  waiter_pid INTEGER NOT NULL,
  waiter_user TEXT NOT NULL,
  PRIMARY KEY (lock_key, owner_id)
) STRICT, WITHOUT ROWID;
