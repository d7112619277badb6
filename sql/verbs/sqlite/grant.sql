-- Takes a lock for one exclusive holder. One row with the token: granted. None: held, cooling down, done within the
-- period, or no such row. While the lock is exclusive nobody holds another row of it, which is not looked at.
UPDATE dblock_lock SET token = max(token + 1, :wall), {granted}
WHERE lock_key = :key AND slot = 0 AND mode = 'exclusive' AND (lock_value IS NULL OR {past_margin})
  AND {hold_is_over} AND {not_done}
RETURNING token
