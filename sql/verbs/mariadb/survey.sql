-- Locks all rows of these keys, the gates first. After the status columns: 0 where the row's fence is open, or not
-- looked at since its lease lives; 1 where a job's transaction that called dblock_assert_held() keeps it; 2 where
-- there is none.
--
-- The server skips the fences that another transaction has locked, without waiting for its end. It does not lock
-- those of living leases: their holders' transactions need not wait for a grant to others. What an exclusive grant
-- waits for, it waits for when it is written.
SELECT {status},
  CASE WHEN expire_time > {now} OR ({own_fence} FOR UPDATE SKIP LOCKED) THEN 0
    WHEN NOT ({own_fence}) THEN 2 WHEN slot > 0 THEN 1 ELSE 0 END
FROM dblock_lock AS lease FORCE INDEX (PRIMARY) WHERE lock_key IN (:keys) ORDER BY lock_key, slot FOR UPDATE
