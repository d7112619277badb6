-- As release_rows.sql, if the caller does not know the rows.
UPDATE dblock_lock SET {free_row}, {record_end}, {cool_down}, lock_count = {nested_is_null}
WHERE lock_key IN (:keys) AND lock_value = :owner AND (:token IS NULL OR token = :token)
  AND (:of_kind IS NULL OR (kind = :of_kind AND {this_boot} AND expire_time > {now}))
