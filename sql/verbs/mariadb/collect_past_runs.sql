-- When a lock becomes exclusive, copies what all its rows know of past runs into its own row (slot 0).
UPDATE dblock_lock USE INDEX (PRIMARY)
SET last_acquired_at = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :last_acquired MICROSECOND,
  last_released_at = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :last_released MICROSECOND,
  last_outcome = :last_outcome, last_exit_code = :last_exit_code,
  success_acquired_at = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :success_acquired MICROSECOND,
  success_released_at = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :success_released MICROSECOND
WHERE lock_key = :key AND slot = 0
