-- Counts one down, never below the holder's own.
UPDATE dblock_lock FORCE INDEX (PRIMARY) SET version = version + 1, lock_count = GREATEST(lock_count, 2) - 1
WHERE {is_ref}
