-- An error at once where a transaction keeps a fence of this lock.
SELECT slot FROM dblock_fence WHERE lock_key = :key FOR UPDATE NOWAIT
