-- Deletes some of them and answers with the token of each, which raise_floor.sql must note in the same transaction.
DELETE FROM dblock_lock WHERE (lock_key, slot) IN (
  SELECT lock_key, slot FROM {idle_rows} ORDER BY slot = 0, update_time LIMIT :limit)
RETURNING token
