-- All that is held. Whatever the optimizer's estimates say at the moment (freed rows that InnoDB has yet to purge
-- still count), the whole table is never read for it.
SELECT {status} FROM dblock_lock FORCE INDEX (dblock_lock_time)
WHERE expire_time > {now} AND (NOT :gates_only OR slot = 0) ORDER BY lock_key, slot LIMIT :limit
