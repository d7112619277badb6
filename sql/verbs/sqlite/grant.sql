-- Takes a lock for one exclusive holder. If it returns a row with the token, the lock is granted. If none, the lock is
-- held, cooling down, paused, done within the period, was last granted in another mode, or has no row. It need not look at the
-- lock's other rows: in mode 'exclusive' none of them has a holder.
UPDATE dblock_lock SET token = max(token + 1, :wall), {write_grant}
WHERE lock_key = :key AND slot = 0 AND mode = 'exclusive' AND (lock_value IS NULL OR {past_margin})
  AND {not_cooling_down} AND {not_done} AND {pause_end} IS NULL AND {not_promised}
RETURNING token
