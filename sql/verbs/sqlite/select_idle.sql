-- Some locks that may be forgotten: key, and version of the lock's own row.
SELECT lock_key, version FROM {idle_locks} ORDER BY update_time LIMIT :limit
