-- Inside a transaction that has locked all rows: grants one key or several exclusively. Must change two rows
-- for each key, else a row is missing.
UPDATE dblock_lock AS lease FORCE INDEX (PRIMARY)
JOIN dblock_fence AS fence FORCE INDEX (PRIMARY) ON fence.lock_key = lease.lock_key AND fence.slot = lease.slot
SET {record_takeover}, lease.token = LAST_INSERT_ID(:token * 1024 + :mark) DIV 1024, {write_grant},
  lease.mode = :mode, lease.slots = :slots, fence.token = :token,
  lease.line_until = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :line_until MICROSECOND
WHERE lease.lock_key IN (:keys) AND (lease.lock_key, lease.slot) IN (:rows)
