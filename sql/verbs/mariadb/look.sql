-- The lock's own row (NULLs if there is none). The columns after the status columns: the answering server if it is
-- read-only, and until when the lock is paused.
SELECT {status}, {answering_replica}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lease.paused_until),
  (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(pause.end_time)) FROM dblock_pause AS pause WHERE {covers})
FROM (SELECT 1 AS one) AS asked LEFT JOIN dblock_lock AS lease ON lock_key = :key AND slot = 0
