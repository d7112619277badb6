-- Primary keys of the oldest of them.
SELECT lock_key, recorded_at, token FROM {old_runs} ORDER BY recorded_at LIMIT :limit
