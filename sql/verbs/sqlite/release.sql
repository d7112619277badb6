-- Releases one lease; one row changed means done. A script's lease must not have expired. With :leaves_nested a
-- lease with nested runs stays.
UPDATE dblock_lock SET {free_row}, {record_end}, lock_count = 0
WHERE {is_named_lease} AND (NOT :script OR ({this_boot} AND expire_time > {now}))
  AND (NOT :leaves_nested OR lock_count < 2 OR NOT {this_boot} OR expire_time <= {now})
