-- The places that count in the lines of these keys.
SELECT {place} FROM dblock_waiter AS place WHERE place.lock_key IN (:keys) AND {counts}
