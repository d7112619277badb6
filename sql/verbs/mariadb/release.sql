-- Releases one lease; one row changed means done. With :of_kind only an unexpired lease of that kind is released. With :leaves_nested a
-- lease with nested runs stays. With :wakes the statement also frees the named lock of the holder's session, if somebody may be waiting.
-- So the next waiter wakes while the release commits. Its grant waits for the row.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET {record_end}{cool_down},
  lock_count = 0 * {tell_history}[wakes| + IF(line_until > {now}, 0 * COALESCE(RELEASE_LOCK({presence}), 0), 0)], {free_row}
WHERE {is_named_lease}[of_kind| AND expire_time > {now}]
  [leaves_nested|AND (lock_count < 2 OR expire_time <= {now})]
