-- Releases several keys; tells how many rows still held the lease. Error 1048: a nested run holds one of them,
-- and none is released.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET {record_end}{cool_down}, lock_count = {nested_is_null} * {tell_history}, {free_row}
WHERE lock_key IN (:keys) AND (lock_key, slot) IN (:rows)
  AND lock_value = :owner AND (:token IS NULL OR token = :token)
  [of_kind|AND kind = :of_kind AND expire_time > {now}]
