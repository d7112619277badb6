DELETE run FROM dblock_history AS run USE INDEX (PRIMARY)
WHERE lock_key IN (:keys) AND (lock_key, recorded_at, token) IN (:rows)
