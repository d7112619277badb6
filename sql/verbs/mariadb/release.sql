-- Releases one lease; one row changed means done. With :of_kind only an unexpired lease of that kind is released. With :leaves_nested a
-- lease with nested runs stays.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET {record_end}{keep_after_failure}, lock_count = 0 * {tell_history}, {free_row}
WHERE {is_named_lease}[of_kind| AND expire_time > {now}]
  [leaves_nested|AND (lock_count < 2 OR expire_time <= {now})]
