-- The lock's own row (slot 0).
SELECT {status}, NULL, NULL, {pause_end} FROM dblock_lock WHERE lock_key = :key AND slot = 0
