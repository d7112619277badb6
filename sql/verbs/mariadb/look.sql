-- The lock's own row, without a key where there is none; then the server that answers, where it takes no writes.
SELECT {status}, {answering_replica}
FROM (SELECT 1 AS one) AS asked LEFT JOIN dblock_lock ON lock_key = :key AND slot = 0
