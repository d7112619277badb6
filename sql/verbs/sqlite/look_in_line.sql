-- As look.sql, and the places that count in the line of the lock: the last column is 0 in the lock's row, and 1 in a place's.
SELECT {status}, NULL, NULL, {pause_end}, 0 FROM dblock_lock WHERE lock_key = :key AND slot = 0
UNION ALL SELECT {place_in_look}, 1 FROM dblock_waiter AS place WHERE place.lock_key = :key AND {counts}
