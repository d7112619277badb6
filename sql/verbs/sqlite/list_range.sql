-- As list_keys.sql, for all keys or the keys with a prefix.
SELECT {status} FROM dblock_lock
WHERE lock_key >= :from AND (:to IS NULL OR lock_key < :to) AND {asked_for}
ORDER BY lock_key, slot LIMIT :limit
