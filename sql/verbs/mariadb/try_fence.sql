-- Fails at once if a transaction has locked a fence of this lock.
SELECT slot FROM dblock_fence WHERE lock_key = :key FOR UPDATE NOWAIT
