-- Of several keys: as many rows as were there. Refused, and none of them: a nested run holds one too.
UPDATE dblock_lock SET {freed}, {ended}, lock_count = {nested_is_null}
WHERE lock_key IN (:keys) AND (lock_key, slot) IN (VALUES :rows)
  AND lock_value = :owner AND (:token IS NULL OR token = :token)
  AND (NOT :script OR (kind = 'acquire' AND {this_boot} AND expire_time > {now}))
