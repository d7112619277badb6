-- As look.sql, for all rows of these keys. Without ORDER BY: a server may be short of memory for sorting.
SELECT {status}, {answering_replica}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lease.paused_until),
  (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(pause.end_time)) FROM dblock_pause AS pause WHERE {covers})
FROM (SELECT 1 AS one) AS asked LEFT JOIN dblock_lock AS lease FORCE INDEX (PRIMARY) ON lock_key IN (:keys)
