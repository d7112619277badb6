-- For a grant of another kind than the last one, when everybody who held the lock is gone. All its fences but that of
-- the slot are passed, as the grant itself passes that one: so all their jobs' transactions have ended.
UPDATE dblock_fence SET token = 0 WHERE lock_key = :key AND slot <> :slot
