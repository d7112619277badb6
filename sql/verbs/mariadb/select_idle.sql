-- Some of them, as read: each is deleted only while unchanged.
SELECT lock_key, slot, version FROM {idle_rows} ORDER BY update_time LIMIT :limit
