-- Creates the table of past runs. Its primary key puts the runs of one lock in the order of their ends.
CREATE TABLE IF NOT EXISTS dblock_history (
  lock_key TEXT, recorded_at INT, token INT, lock_value TEXT, kind TEXT, mode TEXT, holder_host TEXT, holder_pid INT,
  holder_user TEXT, holder_command TEXT, holder_note TEXT, acquired_at INT, released_at INT, outcome TEXT,
  exit_code INT, attempts INT,
  PRIMARY KEY (lock_key, recorded_at, token)
) STRICT, WITHOUT ROWID
