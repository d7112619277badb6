-- As release_rows.sql, if the caller does not know the rows.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET {record_end}, lock_count = {nested_is_null} * {tell_history}, {free_row}
WHERE lock_key IN (:keys) AND lock_value = :owner AND (:token IS NULL OR token = :token)
  AND (NOT :script OR (kind = 'acquire' AND expire_time > {now}))
