-- Releases several keys; tells how many rows still held the lease. Fails, and releases none, if a nested run
-- holds one of them.
UPDATE dblock_lock SET {free_row}, {record_end}, {cool_down}, lock_count = {nested_is_null}
WHERE lock_key IN (:keys) AND (lock_key, slot) IN (VALUES :rows)
  AND lock_value = :owner AND (:token IS NULL OR token = :token)
  AND (:of_kind IS NULL OR (kind = :of_kind AND {this_boot} AND expire_time > {now}))
