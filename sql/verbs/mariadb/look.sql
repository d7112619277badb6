-- The lock's own row (NULLs if there is none).
SELECT {look_columns} FROM (SELECT 1 AS one) AS asked LEFT JOIN dblock_lock AS lease USE INDEX (PRIMARY) ON lock_key = :key AND slot = 0
