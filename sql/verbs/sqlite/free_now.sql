-- Frees a lease by force, unless its last heartbeat is fresh.
UPDATE dblock_lock
SET {free_row}, {record_abandoned}, last_released_at = {freed_at}, hold_until = NULL, lock_count = 0
WHERE lock_key = :key AND slot = :slot AND token = :token AND lock_value IS NOT NULL
  AND (heartbeat_us IS NULL OR NOT {this_boot} OR update_time + 2 * heartbeat_us <= {now})
