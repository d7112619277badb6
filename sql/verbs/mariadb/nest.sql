-- Adds a nested run to a lease. If one row changed, it is counted, and the reply tells the token. A shared
-- lease or a slot must be shared in the same way. update_time stays, because it dates the holder's last
-- heartbeat.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET version = {next_version}, lock_count = lock_count + 1,
  expire_time = GREATEST(expire_time, {now} + INTERVAL :ttl MICROSECOND),
  token = LAST_INSERT_ID(token * 1024 + :mark) DIV 1024
WHERE {is_named_lease} AND revoke_time IS NULL AND expire_time > {now}
  AND (:mode = 'exclusive' OR (mode = :mode AND slots = :slots))
