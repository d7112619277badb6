-- Before grant_beside.sql: changes the locks' own rows (slot 0). Such a row itself looks idle; the holders'
-- rows keep the lock from being forgotten.
UPDATE dblock_lock
SET token = :token, mode = :mode, slots = :slots, version = version + 1, hold_until = NULL, update_time = :wall
WHERE lock_key IN (:keys) AND slot = 0
