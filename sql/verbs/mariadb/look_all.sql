-- As look.sql, for all rows of these keys. Without ORDER BY: a server may be short of memory for sorting.
SELECT {look_columns} FROM (SELECT 1 AS one) AS asked LEFT JOIN dblock_lock AS lease FORCE INDEX (PRIMARY) ON lock_key IN (:keys)
