-- The same of all keys, or of those with a prefix.
SELECT {status} FROM dblock_lock
WHERE lock_key >= :from AND (:to IS NULL OR lock_key < :to) AND {wanted}
ORDER BY lock_key, slot LIMIT :limit
