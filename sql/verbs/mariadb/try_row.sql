-- The same for the lock's own row.
SELECT lock_key FROM dblock_lock WHERE lock_key = :key AND slot = 0 FOR UPDATE NOWAIT
