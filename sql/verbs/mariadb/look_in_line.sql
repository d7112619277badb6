-- As look.sql, and the places that count in the line of the lock: the last column is 0 in the lock's row, and 1 in a place's.
SELECT {look_columns}, 0 FROM (SELECT 1 AS one) AS asked LEFT JOIN dblock_lock AS lease USE INDEX (PRIMARY) ON lock_key = :key AND slot = 0
UNION ALL SELECT {place_in_look}, 1 FROM dblock_waiter AS place FORCE INDEX (PRIMARY) WHERE place.lock_key = :key AND {counts}
