-- Deletes the oldest runs that may be forgotten.
DELETE FROM dblock_history WHERE (lock_key, recorded_at, token) IN (
  SELECT lock_key, recorded_at, token FROM {old_runs} ORDER BY recorded_at LIMIT :limit)
