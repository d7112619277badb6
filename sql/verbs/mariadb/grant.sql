-- Takes a lock for one exclusive holder. If rows changed (the lock's and the fence's), the lock is granted, and
-- the reply tells the token. If none changed, the lock is held, cooling down, done within the period, was last
-- granted in another mode, or lacks a row here or in dblock_fence.
--
-- While the lock is not free, the key that joins the fence is NULL: a refused try must not touch the fence,
-- which a job's transaction may keep locked. The server chooses which of the two tables it writes first: if it
-- has written this grant to the lease already, the fence takes the token from there.
UPDATE dblock_lock AS lease
JOIN dblock_fence AS fence ON fence.slot = 0 AND fence.lock_key = IF({is_free}, lease.lock_key, NULL)
SET {record_takeover},
  lease.token = LAST_INSERT_ID({next_token} * 1024 + :mark) DIV 1024,
  {write_grant}, lease.slots = 1,
  fence.token = IF(lock_value = :owner AND create_time = {now}, lease.token, {next_token})
WHERE lease.lock_key = :key AND lease.slot = 0 AND {is_free}
