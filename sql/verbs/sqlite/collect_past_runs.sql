-- When a lock becomes exclusive, copies what all its rows know of past runs into its own row (slot 0).
UPDATE dblock_lock
SET last_acquired_at = :last_acquired, last_released_at = :last_released, last_outcome = :last_outcome,
  last_exit_code = :last_exit_code, success_acquired_at = :success_acquired, success_released_at = :success_released
WHERE lock_key = :key AND slot = 0
