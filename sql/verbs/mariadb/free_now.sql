-- Frees a lease by force, unless its last heartbeat is fresh.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET {record_abandoned}, last_released_at = {now}, lock_count = 0 * {tell_history}, {free_row}, hold_until = NULL
WHERE lock_key = :key AND slot = :slot AND token = :token AND lock_value IS NOT NULL
  AND (heartbeat_us IS NULL OR update_time + INTERVAL 2 * heartbeat_us MICROSECOND <= {now})
