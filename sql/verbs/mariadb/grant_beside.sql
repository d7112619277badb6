-- As grant_rows.sql, for a reader or a holder of a slot, whose row is not the lock's own. Must change three rows a key.
UPDATE dblock_lock AS lease FORCE INDEX (PRIMARY)
JOIN dblock_fence AS fence FORCE INDEX (PRIMARY) ON fence.lock_key = lease.lock_key AND fence.slot = lease.slot
JOIN dblock_lock AS own FORCE INDEX (PRIMARY) ON own.lock_key = lease.lock_key AND own.slot = 0
SET {record_takeover}, lease.token = LAST_INSERT_ID(:token * 1024 + :mark) DIV 1024, {write_grant},
  lease.mode = :mode, lease.slots = :slots, fence.token = :token,
  own.token = :token, own.version = own.version + 1, own.update_time = {now}, own.hold_until = NULL,
  own.line_until = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :line_until MICROSECOND, own.mode = :mode, own.slots = :slots
WHERE lease.lock_key IN (:keys) AND (lease.lock_key, lease.slot) IN (:rows)
