-- Some of them, by the key and the version of their own row.
SELECT lock_key, version FROM {idle_locks} ORDER BY update_time LIMIT :limit
