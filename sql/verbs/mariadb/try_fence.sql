-- Fails at once if a transaction has locked a fence of this lock.
SELECT slot FROM dblock_fence USE INDEX (PRIMARY) WHERE lock_key = :key FOR UPDATE NOWAIT
