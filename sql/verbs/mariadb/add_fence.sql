-- The same for a row of dblock_fence.
INSERT INTO dblock_fence (lock_key, slot, token) VALUES (:key, :slot, 0)
