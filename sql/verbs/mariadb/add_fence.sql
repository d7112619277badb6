-- Adds a row's fence. Error 1062: the fence exists already.
INSERT INTO dblock_fence (lock_key, slot, token) VALUES (:key, :slot, 0)
