-- The places that count in the lines of these keys. Without ORDER BY: a server may be short of memory for sorting.
SELECT {place} FROM dblock_waiter AS place FORCE INDEX (PRIMARY) WHERE place.lock_key IN (:keys) AND {counts}
