-- The lock's own row.
SELECT {status} FROM dblock_lock WHERE lock_key = :key AND slot = 0
