-- Its lock's own row where that is another. Idle as far as the row tells; that it is not forgotten is up to those of the
-- holders.
UPDATE dblock_lock
SET token = :token, mode = :mode, slots = :slots, intent_until = NULL, version = version + 1, hold_until = NULL,
  update_time = :wall
WHERE lock_key = :key AND slot = 0
