-- One row: counted up, and the reply tells the token. Beside others only a lease that is shared in the same way
-- counts. update_time stays: it dates the holder's last heartbeat.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET version = version + 1, lock_count = lock_count + 1,
  expire_time = GREATEST(expire_time, {now} + INTERVAL :ttl MICROSECOND),
  token = LAST_INSERT_ID(token * 1024 + :mark) DIV 1024
WHERE {is_ref} AND revoke_time IS NULL AND expire_time > {now}
  AND (:mode = 'exclusive' OR (mode = :mode AND slots = :slots))
