-- Counts the rows of locks that may be forgotten.
SELECT COALESCE(SUM((SELECT COUNT(*) FROM dblock_lock AS lease USE INDEX (PRIMARY) WHERE lease.lock_key = own.lock_key)), 0)
FROM {idle_locks}
