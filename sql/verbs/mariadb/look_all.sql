-- As look.sql, for all rows of these keys. Without ORDER BY: a server may be short of memory for sorting.
SELECT {status}, {answering_replica}
FROM (SELECT 1 AS one) AS asked LEFT JOIN dblock_lock FORCE INDEX (PRIMARY) ON lock_key IN (:keys)
