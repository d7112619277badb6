-- For a grant in another mode than the last one, after all holders are gone. Writes to all the lock's fences
-- except the slot's own, to which the grant itself writes: so it waits until all those holders' transactions
-- have ended.
UPDATE dblock_fence USE INDEX (PRIMARY) SET token = 0 WHERE lock_key = :key AND slot <> :slot
