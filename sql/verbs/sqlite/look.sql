-- The lock's own row (slot 0).
SELECT {status} FROM dblock_lock WHERE lock_key = :key AND slot = 0
