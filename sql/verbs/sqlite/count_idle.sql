-- Counts the rows of locks that may be forgotten.
SELECT coalesce(sum((SELECT count(*) FROM dblock_lock AS lease WHERE lease.lock_key = own.lock_key)), 0)
FROM {idle_locks}
