-- Some keys that have a row, in their order.
SELECT lock_key FROM dblock_lock FORCE INDEX (PRIMARY)
WHERE lock_key >= :from AND (:to IS NULL OR lock_key < :to) AND slot = 0 ORDER BY lock_key LIMIT :limit
