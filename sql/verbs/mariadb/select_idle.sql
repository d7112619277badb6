-- Some of them, as read: each is deleted only while unchanged.
SELECT lock_key, version FROM {idle_locks} ORDER BY update_time LIMIT :limit
