-- Takes a lock for one exclusive holder. Rows changed, that of the fence among them: granted, and the reply tells the
-- token. None: held, cooling down, done within the period, or without a row here or in dblock_fence.
--
-- The fence is joined by a key that is NULL while the lock is not free: a try that is refused must not even touch the
-- row that a job's transaction keeps locked. Which of two tables is written first is the server's to choose: where
-- this grant is in the lease already, so is its token.
UPDATE dblock_lock AS lease
JOIN dblock_fence AS fence ON fence.slot = 0 AND fence.lock_key = IF({is_free}, lease.lock_key, NULL)
SET {taken_over},
  lease.token = LAST_INSERT_ID({next_token} * 1024 + :mark) DIV 1024,
  {granted}, lease.slots = 1,
  fence.token = IF(lock_value = :owner AND create_time = {now}, lease.token, {next_token})
WHERE lease.lock_key = :key AND lease.slot = 0 AND {is_free}
