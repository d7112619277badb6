-- Counts the rows of locks that may be forgotten.
SELECT COALESCE(SUM((SELECT COUNT(*) FROM dblock_lock AS lease WHERE lease.lock_key = gate.lock_key)), 0)
FROM {idle_locks}
