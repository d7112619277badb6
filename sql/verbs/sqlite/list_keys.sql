-- The rows of these keys. Includes free rows, which know of past runs, unless :held_only.
SELECT {status} FROM dblock_lock
WHERE lock_key IN (:keys) AND lock_key >= :from AND (:to IS NULL OR lock_key < :to) AND {asked_for}
ORDER BY lock_key, slot LIMIT :limit
