-- Revokes a lease or ends a cooldown: renewals fail from now on, and no cooldown follows. With :arrival only a lease whose request
-- came no later. A holder's update_time stays, because it dates the last heartbeat; a lock that cooled down is free from now on.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET version = {next_version}, hold_until = NULL, update_time = IF(lock_value IS NULL, {now}, update_time),
  revoked_by = IF(lock_value IS NULL, NULL, COALESCE(revoked_by, :by)),
  revoke_time = IF(lock_value IS NULL, NULL, COALESCE(revoke_time, {now}))
WHERE lock_key = :key AND slot = :slot AND token = :token AND (lock_value IS NOT NULL OR NOT {not_cooling_down})
  AND (:arrival IS NULL OR arrived_at IS NULL OR arrived_at <= {arrival})
