-- The same of all rows of these keys, in no order: a server may be short of memory to sort in.
SELECT {status}, {answering_replica}
FROM (SELECT 1 AS one) AS asked LEFT JOIN dblock_lock FORCE INDEX (PRIMARY) ON lock_key IN (:keys)
