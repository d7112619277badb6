-- Fails at once if a transaction has locked a row of this lock: its own row, or a reader's or slot's.
SELECT slot FROM dblock_lock USE INDEX (PRIMARY) WHERE lock_key = :key FOR UPDATE NOWAIT
