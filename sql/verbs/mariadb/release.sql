-- Releases one lease; one row changed means done. A script's lease must not have expired. With :leaves_nested a
-- lease with nested runs stays.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET {record_end}, lock_count = 0 * {tell_history}, {free_row}
WHERE {is_named_lease} AND (NOT :script OR expire_time > {now})
  AND (NOT :leaves_nested OR lock_count < 2 OR expire_time <= {now})
