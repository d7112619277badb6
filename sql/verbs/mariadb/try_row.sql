-- The same for the lock's own row, and those of its readers or slots.
SELECT slot FROM dblock_lock WHERE lock_key = :key FOR UPDATE NOWAIT
