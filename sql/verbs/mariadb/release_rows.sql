-- Of several keys: as many rows as were there. Error 1048, and none of them: a nested run holds one too.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET {ended}, lock_count = {nested_is_null} * {tell_history}, {freed}
WHERE lock_key IN (:keys) AND (lock_key, slot) IN (:rows)
  AND lock_value = :owner AND (:token IS NULL OR token = :token)
  AND (NOT :script OR (kind = 'acquire' AND expire_time > {now}))
