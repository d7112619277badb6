-- Some locks that may be forgotten, with the version of their own row. forget.sql deletes a lock only if that
-- version is unchanged.
SELECT lock_key, version FROM {idle_locks} ORDER BY update_time LIMIT :limit
