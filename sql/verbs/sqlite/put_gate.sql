-- The locks' own rows, where those of the holders are others. Idle as far as they tell; that they are not forgotten
-- is up to those of the holders.
UPDATE dblock_lock
SET token = :token, mode = :mode, slots = :slots, intent_until = NULL, version = version + 1, hold_until = NULL,
  update_time = :wall
WHERE lock_key IN (:keys) AND slot = 0
