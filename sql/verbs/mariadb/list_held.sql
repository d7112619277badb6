-- All leases that run. FORCE INDEX: the server must never read the whole table for this, whatever the optimizer
-- estimates (freed rows that InnoDB has not purged yet still count there).
SELECT {status} FROM dblock_lock FORCE INDEX (dblock_lock_time)
WHERE expire_time > {now} AND (NOT :own_rows_only OR slot = 0) ORDER BY lock_key, slot LIMIT :limit
