-- Some of them: rows of holders first.
SELECT lock_key, slot, version FROM {idle_rows} ORDER BY slot = 0, update_time LIMIT :limit
