-- The lock's own row (NULLs if there is none). The last column names the answering server if it is read-only.
SELECT {status}, {answering_replica}
FROM (SELECT 1 AS one) AS asked LEFT JOIN dblock_lock ON lock_key = :key AND slot = 0
