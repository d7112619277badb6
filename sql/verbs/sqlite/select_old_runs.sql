-- Primary keys of the oldest runs that may be forgotten.
SELECT lock_key, recorded_at, token FROM {old_runs} ORDER BY recorded_at LIMIT :limit
