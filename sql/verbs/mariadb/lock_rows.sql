-- Reads and locks all rows of these keys, each key's own row first. The column after the status columns tells
-- about the row's fence: 0 for a lease that runs; else 2 if the row has none; 1 if it is a reader's or slot's row
-- and a job's transaction, through dblock_assert_held(), keeps the fence locked; else 0.
--
-- SKIP LOCKED: the server skips a fence that another transaction has locked, and does not wait for that
-- transaction. The fences of leases that run are not locked here, so that their holders' transactions need not
-- wait for a grant to another holder. The locked fence of a lock's own row counts as 0, because an exclusive grant waits for
-- it when it writes.
--
-- The last two columns: until when the lock is paused. LOCK IN SHARE MODE: a plain read would see dblock_pause as it was
-- when the first row was read, while the statement may have waited for the next row since.
SELECT {status},
  CASE WHEN expire_time > {now} OR ({own_fence} FOR UPDATE SKIP LOCKED) THEN 0
    WHEN NOT ({own_fence}) THEN 2 WHEN slot > 0 THEN 1 ELSE 0 END,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lease.paused_until),
  (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(pause.end_time)) FROM dblock_pause AS pause USE INDEX (PRIMARY)
    WHERE {covers} LOCK IN SHARE MODE)
FROM dblock_lock AS lease FORCE INDEX (PRIMARY) WHERE lock_key IN (:keys) ORDER BY lock_key, slot FOR UPDATE
