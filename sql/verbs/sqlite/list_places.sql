-- As see_line.sql, for a range of keys.
SELECT {place} FROM dblock_waiter AS place
WHERE place.lock_key >= :from AND (:to IS NULL OR place.lock_key < :to) AND {counts}
