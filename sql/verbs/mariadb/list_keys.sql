-- The rows of these keys. Includes free rows, which know of past runs, unless :held_only.
SELECT {status} FROM dblock_lock USE INDEX (PRIMARY, dblock_lock_time)
WHERE lock_key IN (:keys) AND lock_key >= :from AND (:to IS NULL OR lock_key < :to)
  AND (NOT :held_only OR expire_time > {now}) AND (NOT :own_rows_only OR slot = 0)
ORDER BY lock_key, slot LIMIT :limit
