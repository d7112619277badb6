DELETE FROM dblock_history WHERE lock_key IN (:keys) AND (lock_key, recorded_at, token) IN (:rows)
