-- Adds a nested run to a lease. If it returns a row with the token, the run is counted. A shared lease or a
-- slot must be shared in the same way. update_time stays, because it dates the holder's last heartbeat.
UPDATE dblock_lock
SET version = version + 1, lock_count = lock_count + 1, expire_time = max(expire_time, {now} + :ttl)
WHERE {is_named_lease} AND {this_boot} AND revoke_time IS NULL AND expire_time > {now}
  AND mode = :mode AND (mode = 'exclusive' OR slots = :slots)
RETURNING token
